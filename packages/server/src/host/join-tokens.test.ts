// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { networkPeer, serving } from "../../testing/network.ts";
import { connectPeer, isBlocked, Peer, quiet } from "../../testing/peer.ts";
import { type TallyOptions, tally } from "../../testing/tally.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { defineWorld } from "../definition/world.ts";
import type { TakenSeat } from "../session/seat-tokens.ts";
import {
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
} from "./environment-server.ts";
import type { ServerEvent } from "./events.ts";

/** Seats of a matchmaker, with a log of their calls. */
function seats() {
  const log: string[] = [];
  const take = (token: string | undefined, worldName: string): TakenSeat => {
    log.push(`take ${token ?? "nothing"} of ${worldName}`);
    if (token === undefined) {
      throw new DmEnvRpcError("UNAUTHENTICATED", "show a join token");
    }
    return { leave: () => log.push(`leave ${token}`), giveBack: () => log.push(`back ${token}`) };
  };
  return { log, take };
}

/** Seats that are reserved when the test resolves them. */
function slowSeats() {
  const { log, take } = seats();
  const asked: (() => void)[] = [];
  const slow = (token: string | undefined, worldName: string): Promise<TakenSeat> =>
    new Promise((resolve) => {
      asked.push(() => resolve(take(token, worldName)));
    });
  return { log, slow, asked };
}

async function start(
  options: Pick<EnvironmentServerOptions, "joinToken" | "limits" | "time">,
  policies: TallyOptions = {},
) {
  const server = createEnvironmentServer({ worlds: [tally(policies)], ...options });
  const host = connectPeer(server);
  return { server, host, world: await host.createWorld({ max_agents: 2 }) };
}

function bearer(server: EnvironmentServer, token: string): Peer {
  const metadata = new Map([["authorization", `Bearer ${token}`]]);
  const [client, stream] = memoryStreamPair({ metadata });
  server.accept(stream);
  return new Peer(client);
}

describe("a join token", () => {
  it("may be sent in the metadata of the stream", async () => {
    const { log, take } = seats();
    await using server = await serving({ worlds: [tally()], joinToken: take });
    await using host = await networkPeer(server);
    const world = await host.createWorld();
    await using agent = await networkPeer(server, { metadata: { authorization: "bearer abc" } });
    await agent.join(world);
    expect((await agent.step()).state).toBe("RUNNING");
    expect(log).toEqual([`take abc of ${world}`]);
  });

  it("behaviour 24: affects no other agent when its seat cannot be left", async () => {
    const events: ServerEvent[] = [];
    const worlds = [tally()];
    const joinToken = (): TakenSeat => ({
      leave: async () => await Promise.reject(new Error("the matchmaker is away")),
      giveBack() {},
    });
    const onEvent = (event: ServerEvent): unknown => events.push(event);
    const server = createEnvironmentServer({ worlds, joinToken, onEvent });
    const peer = connectPeer(server);
    const worldName = await peer.createWorld();
    await peer.join(worldName);
    await peer.leave();
    await quiet();
    const error = expect.objectContaining({ message: "the matchmaker is away" });
    expect(events).toContainEqual({ kind: "seat-failed", worldName, error });
    await peer.join(worldName);
  });

  it("may be a join setting, which no world receives and which takes precedence over the metadata", async () => {
    const { log, take } = seats();
    const { server, world } = await start({ joinToken: take });
    await connectPeer(server).join(world, { join_token: "abc", width: 3 });
    await bearer(server, "for-the-gateway").join(world, { join_token: "def" });
    expect(log).toEqual([`take abc of ${world}`, `take def of ${world}`]);
  });

  it("comes with the seat key of its agent, but not on a stream with the setting seats, which resumes no seat", async () => {
    const keys: (string | undefined)[] = [];
    const joinToken = (_token: unknown, _world: string, seatKey: string | undefined): TakenSeat => {
      keys.push(seatKey);
      return { leave() {}, giveBack() {} };
    };
    const { server, world } = await start({ joinToken });
    const settings = { join_token: "abc", seat_key: "the-key-of-the-agent" };
    await connectPeer(server).join(world, settings);
    await connectPeer(server).join(world, { ...settings, seats: 1 });
    expect(keys).toEqual(["the-key-of-the-agent", undefined]);
  });

  it("may add join settings, which replace the agent's own if the world declares them", async () => {
    const joined: unknown[] = [];
    const arena = defineWorld({
      name: "arena",
      joinSettings: { team: t.string(), level: t.int32(), name: t.string() },
      actions: { wait: t.bool() },
      observations: { reward: t.float32() },
      create: () => ({
        join: (_agent, settings) => void joined.push(settings),
        step() {},
        observe: { reward: () => 0 },
      }),
    });
    const settings = { team: "red", level: 3, map: "night" };
    const joinToken = (): TakenSeat => ({ settings, leave() {}, giveBack() {} });
    const peer = connectPeer(createEnvironmentServer({ worlds: [arena], joinToken }));
    await peer.join(await peer.createWorld(), { team: "blue", level: 9, name: "ann" });
    expect(joined).toEqual([{ team: "red", level: 3, name: "ann" }]);
  });

  it.each([
    ["a value that is not a setting", { width: [[1], [2, 3]] }, /width of the join token/],
    ["a value of another dtype", { width: "wide" }, /width/],
  ])("with %s refuses the join, and its seat is given back", async (_, settings, message) => {
    const log: string[] = [];
    const joinToken = (): TakenSeat => ({
      settings,
      leave: () => log.push("leave"),
      giveBack: () => log.push("back"),
    });
    const { server, world } = await start({ joinToken });
    await expect(connectPeer(server).join(world, { join_token: "abc" })).rejects.toThrow(message);
    expect(log).toEqual(["back"]);
  });

  it("is accepted if the server does not check tokens", async () => {
    const { server, world } = await start({});
    await connectPeer(server).join(world, { join_token: "abc" });
    await bearer(server, "abc").join(world);
  });

  it("must be a single string", async () => {
    const { server, world } = await start({ joinToken: seats().take });
    const peer = connectPeer(server);
    await expect(peer.join(world, { join_token: 7 })).rejects.toThrow(/^3: .*join_token.*string/);
  });

  it("is checked only if the join is otherwise valid, and its refusal fails the join", async () => {
    const { log, take } = seats();
    const { server, world } = await start({ joinToken: take });
    const peer = connectPeer(server);
    await expect(peer.join("nowhere")).rejects.toThrow(/^5: /);
    await expect(peer.join(world)).rejects.toThrow(/^16: .*show a join token/);
    await peer.join(world, { join_token: "abc" });
    await expect(peer.join(world, { join_token: "def" })).rejects.toThrow(/^9: /);
    expect(log).toEqual([`take nothing of ${world}`, `take abc of ${world}`]);
  });

  it("that cannot be checked is reported as the server's error", async () => {
    const { server, world } = await start({
      joinToken: () => Promise.reject(new Error("no keys")),
    });
    await expect(connectPeer(server).join(world)).rejects.toThrow(/^13: .*join token: no keys/);
  });

  it("delays only the later requests of its stream", async () => {
    const { slow, asked } = slowSeats();
    const { server, world } = await start({ joinToken: slow });
    const [one, two] = [bearer(server, "one"), bearer(server, "two")];
    const [joined, created] = [one.join(world), one.createWorld()];
    const other = two.join(world);
    expect(await isBlocked(created)).toBe(true);
    asked[1]?.();
    await other;
    expect((await two.step()).state).toBe("RUNNING");
    expect(await isBlocked(created)).toBe(true);
    asked[0]?.();
    await joined;
    await created;
  });

  it("is not waited for longer than a join may take; a seat that is reserved later is given back", async () => {
    const time = manualTime();
    const { log, slow, asked } = slowSeats();
    const limits = { joinMs: 50, idleStreamMs: 0 };
    const { server, world } = await start({ joinToken: slow, time, limits });
    const peer = bearer(server, "abc");
    const late = expect(peer.join(world)).rejects.toThrow(/^4: .*50 ms \(limit: joinMs\)/);
    await quiet();
    time.advance(50);
    await late;
    asked[0]?.();
    await quiet();
    expect(log).toEqual([`take abc of ${world}`, "back abc"]);
    expect(server.worlds()[0]?.joins).toBe(0);
  });
});

describe("the seat of a join token", () => {
  async function joined(policies: TallyOptions = {}, time = manualTime()) {
    const { log, take } = seats();
    const limits = { idleStreamMs: 0 };
    const scene = await start({ joinToken: take, time, limits }, policies);
    const peer = bearer(scene.server, "abc");
    await peer.join(scene.world);
    log.length = 0;
    return { ...scene, log, peer, time };
  }

  it("is left once, by a leave and the end of the stream", async () => {
    const { log, peer } = await joined();
    await peer.leave();
    await peer.leave();
    peer.stream.end();
    await peer.closed;
    expect(log).toEqual(["leave abc"]);
  });

  it("is left when the agent dies", async () => {
    const { log, peer } = await joined();
    peer.drop();
    await quiet();
    expect(log).toEqual(["leave abc"]);
  });

  it("is left as soon as the world ends, not only when the stream ends", async () => {
    const { log, peer, host, world } = await joined({ onDestroy: "force" });
    await host.destroyWorld(world);
    expect(log).toEqual(["leave abc"]);
    peer.drop();
    await quiet();
    expect(log).toEqual(["leave abc"]);
  });

  it("is left when the agent is removed from the world", async () => {
    const clock = lockstep({ deadlineMs: 10, onMissedDeadline: "leave" });
    const { log, peer, server, world, time } = await joined({ clock });
    const other = bearer(server, "other");
    await other.join(world);
    await Promise.all([peer.step(), other.step()]);
    log.length = 0;
    const step = other.step();
    await quiet();
    time.advance(10);
    await step;
    expect(log).toEqual(["leave abc"]);
  });

  it("can be left by an agent that joins another world on the same stream", async () => {
    const { log, peer, world } = await joined();
    await peer.leave();
    await peer.join(world, { join_token: "next" });
    await peer.leave();
    expect(log).toEqual(["leave abc", `take next of ${world}`, "leave next"]);
  });

  it("is given back when the world refuses the agent", async () => {
    const { log, server, world } = await joined();
    const peer = bearer(server, "def");
    await expect(peer.join(world, { nickname: "x" })).rejects.toThrow(/^3: /);
    await peer.join(world);
    await expect(bearer(server, "ghi").join(world)).rejects.toThrow(/^8: /);
    const take = (token: string) => `take ${token} of ${world}`;
    expect(log).toEqual([take("def"), "back def", take("def"), take("ghi"), "back ghi"]);
  });

  it("is given back when the stream ends before it is reserved", async () => {
    const { log, slow, asked } = slowSeats();
    const { server, world } = await start({ joinToken: slow });
    const peer = bearer(server, "abc");
    peer.join(world).catch(() => {});
    await quiet();
    peer.drop();
    await quiet();
    asked[0]?.();
    await quiet();
    expect(log).toEqual([`take abc of ${world}`, "back abc"]);
    expect(server.worlds()[0]?.joins).toBe(0);
  });

  it("is given back when the stream ends before the world has admitted the agent", async () => {
    const { log, take } = seats();
    let admit = (): void => {};
    const slow = defineWorld({
      name: "slow",
      actions: {},
      observations: {},
      create: () => ({
        join: () =>
          new Promise<void>((resolve) => {
            admit = resolve;
          }),
        step() {},
        observe: {},
      }),
    });
    await using server = createEnvironmentServer({ worlds: [slow], joinToken: take });
    const world = await connectPeer(server).createWorld();
    const peer = bearer(server, "abc");
    peer.join(world).catch(() => {});
    await quiet();
    peer.drop();
    await quiet();
    admit();
    await quiet();
    expect(log).toEqual([`take abc of ${world}`, "back abc"]);
    expect(server.worlds()[0]).toMatchObject({ agents: 0, joins: 1 });
  });

  it("is given back when the world has ended meanwhile", async () => {
    const { log, slow, asked } = slowSeats();
    const { server, host, world } = await start({ joinToken: slow });
    const peer = bearer(server, "abc");
    const refused = expect(peer.join(world)).rejects.toThrow(/^5: .*destroyed/);
    await quiet();
    await host.destroyWorld(world);
    asked[0]?.();
    await refused;
    expect(log).toEqual([`take abc of ${world}`, "back abc"]);
  });
});

it("no world can have the reserved join setting", () => {
  const definition = tally();
  const joinSettings = { ...definition.joinSettings, join_token: definition.joinSettings?.name };
  const worlds = [{ ...definition, joinSettings } as never];
  expect(() => createEnvironmentServer({ worlds })).toThrow(/"tally".*"join_token".*reserved/);
});
