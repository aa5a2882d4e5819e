// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { connect } from "@dm-env-rpc/client";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { cuttableLine } from "../testing/cuttable-line.ts";
import { joinMatch, matchmakerClient } from "./client/index.ts";
import { serveRegistered } from "./registration/index.ts";
import { serveMatchmaker } from "./serve-matchmaker.ts";

// A title names the behaviour in docs/behaviours.md that its test shows.

/** Creates a world for two agents that holds their seats and records its calls. */
function duel() {
  const told: string[] = [];
  const world = defineWorld({
    name: "duel",
    agents: { min: 2, max: 2 },
    clock: lockstep(),
    onDrop: { holdMs: 60_000, policy: "block" },
    actions: { add: t.int32() },
    observations: { total: t.int32() },
    create() {
      let total = 0;
      return {
        join: (agent) => void told.push(`join ${agent}`),
        leave: (agent) => void told.push(`leave ${agent}`),
        step(actions) {
          for (const { add = 0 } of actions.values()) {
            total += add;
          }
        },
        observe: { total: () => total },
      };
    },
  });
  return { told, world };
}

/** Serves the world at a matchmaker, and matches two agents. The first reaches its server over a line that can be cut. */
async function matched({ world }: ReturnType<typeof duel>) {
  await using cleanUp = new AsyncDisposableStack();
  const profile = create(MatchProfileSchema, {
    name: "duels",
    pools: [{ name: "all" }],
    matchFunction: { function: { case: "byCount", value: { count: 2 } } },
    worldType: "duel",
    seatTimeout: { seconds: 10n }, // Longer than machines stand still: both agents must join in time.
  });
  const served = cleanUp.use(await serveMatchmaker({ profiles: [profile] }));
  const { server } = cleanUp.use(
    await serveRegistered((hooks) => serve({ worlds: [world], ...hooks }), {
      matchmakers: served.url,
      maxWorlds: 1,
      maxAgents: 2,
      worldTypes: ["duel"],
    }),
  );
  const line = cleanUp.use(await cuttableLine(server.url));
  const client = matchmakerClient(served.url, { timeoutMs: 60_000 });
  const [one, two] = await Promise.all([client.findMatch(), client.findMatch()]);
  const reconnect = { initialMs: 10, maxAttempts: 1_000 };
  const cut = { ...one, address: line.address };
  const first = cleanUp.use(await joinMatch(cut, { as: world, connect: { reconnect } }));
  const other = cleanUp.use(await joinMatch(two, { as: world }));
  await Promise.all([first.reset(), other.reset()]);
  await Promise.all([first.step({ add: 1 }), other.step({ add: 2 })]);
  const ending = cleanUp.move();
  return { line, client, one, first, other, [Symbol.asyncDispose]: () => ending.disposeAsync() };
}

it("behaviour 77: an agent whose connection is cut takes the seat of its match again, even after its token has expired", async () => {
  const game = duel();
  await using match = await matched(game);
  const { line, client, one, first, other } = match;
  await expect.poll(() => Date.now(), { timeout: 60_000 }).toBeGreaterThan(one.expiresMs + 1_000);
  const waiting = other.step({ add: 4 });
  line.cut();
  await expect(first.step({ add: 100 })).rejects.toMatchObject({ origin: "connection" });
  const back = await first.step({ add: 100 });
  expect(back.first()).toBe(true);
  expect(back.observation.total).toBe(3);
  await first.step({ add: 8 });
  expect((await waiting).observation.total).toBe(15);
  expect(game.told).toEqual(["join 1", "join 2"]);
  // The ticket has kept its seat.
  expect(await client.get(one.ticketId)).toMatchObject({ state: "joined" });
});

it("behaviour 77: an agent whose server has not noticed the loss of its connection takes the seat of its match again", async () => {
  const game = duel();
  await using match = await matched(game);
  const { line, client, one, first, other } = match;
  const waiting = other.step({ add: 4 });
  line.lose();
  await expect(first.step({ add: 100 })).rejects.toMatchObject({ origin: "connection" });
  const back = await first.step({ add: 100 });
  expect(back.observation.total).toBe(3);
  await first.step({ add: 8 });
  expect((await waiting).observation.total).toBe(15);
  expect(game.told).toEqual(["join 1", "join 2"]);
  // A thief with the token alone does not take the seat.
  await expect(joinMatch(one)).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  expect(await client.get(one.ticketId)).toMatchObject({ state: "joined" });
});

it("behaviour 77: without a matchmaker, an agent that reconnects with keepSeat takes its seat again", async () => {
  const { told, world } = duel();
  await using server = await serve({ worlds: [world] });
  await using line = await cuttableLine(server.url);
  const reconnect = { initialMs: 10, maxAttempts: 1_000, keepSeat: true };
  await using connection = await connect(line.address, { reconnect });
  const name = await connection.createWorld();
  await using first = await connection.join(name, { as: world });
  await using direct = await connect(server.url);
  await using other = await direct.join(name, { as: world });
  await Promise.all([first.reset(), other.reset()]);
  const waiting = other.step({ add: 4 });
  line.cut();
  await expect(first.step({ add: 100 })).rejects.toMatchObject({ origin: "connection" });
  expect((await first.step({ add: 100 })).first()).toBe(true);
  await first.step({ add: 8 });
  expect((await waiting).observation.total).toBe(12);
  expect(told).toEqual(["join 1", "join 2"]);
});
