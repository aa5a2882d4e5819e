// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type MatchmakerEvent, serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import { playMatches } from "./play-matches.ts";

/** A world for two agents, with sequences of three ticks; it may fail at a tick. */
function pairWorld(failsAt: (world: number) => number) {
  let worlds = 0;
  return defineWorld({
    name: "pair",
    actions: { move: t.discrete(3) },
    observations: { tick: t.int32(), reward: t.float32() },
    agents: { min: 2, max: 2 },
    clock: lockstep(),
    create() {
      const failure = failsAt(++worlds);
      let tick = 0;
      let ticks = 0;
      return {
        start: () => {
          tick = 0;
        },
        step() {
          tick += 1;
          ticks += 1;
          if (ticks === failure) {
            throw new Error("the ground gave way");
          }
        },
        status: () => (tick < 3 ? "running" : "terminated"),
        observe: { tick: () => tick, reward: () => 1 },
      };
    },
  });
}

const never = () => 0;

async function house(failsAt: (world: number) => number) {
  const events: MatchmakerEvent[] = [];
  const matchmaker = await serveMatchmaker({
    profiles: [
      create(MatchProfileSchema, {
        name: "pair",
        pools: [{ name: "all" }],
        matchFunction: { function: { case: "byCount", value: { count: 2 } } },
        worldType: "pair",
      }),
    ],
    onEvent: (event) => events.push(event),
  });
  const { server, close } = await serveRegistered(
    (hooks) => serve({ worlds: [pairWorld(failsAt)], ...hooks }),
    { matchmakers: matchmaker.url, maxWorlds: 4, maxAgents: 8, worldTypes: ["pair"] },
  );
  const { url } = matchmaker;
  return {
    url,
    server,
    events,
    counts: () => matchmaker.matchmaker.counts(),
    async [Symbol.asyncDispose]() {
      await close();
      await matchmaker.close();
    },
  };
}

test("each agent plays in the world of its match and cancels its ticket at the end", async () => {
  await using place = await house(never);
  const { url, counts, server } = place;
  const summary = await playMatches({ matchmakers: [url], agents: 4, steps: 8, seed: 1n });
  expect(summary).toMatchObject({ steps: 32, sequences: 8, meanReturn: 3, endedEarly: false });
  expect(summary.worlds).toHaveLength(2);
  expect(summary.worlds.every(({ address }) => address === server.url)).toBe(true);
  expect(summary.worlds.flatMap(({ agents }) => agents).sort()).toEqual([0, 1, 2, 3]);
  const { waiting, matched, assigned, joined } = counts().tickets;
  expect({ waiting, matched, assigned, joined }).toEqual({
    waiting: 0,
    matched: 0,
    assigned: 0,
    joined: 0,
  });
});

test("agents whose world fails find another match and continue there", async () => {
  await using place = await house((world) => (world === 1 ? 5 : 0));
  const { url, events, counts } = place;
  const summary = await playMatches({ matchmakers: [url], agents: 2, steps: 20, seed: 1n });
  expect(summary).toMatchObject({ steps: 40, endedEarly: false });
  const { worlds } = summary;
  expect(worlds[0]?.world).toBe("pair-1");
  // The agent that notices later may be matched by its old ticket until it cancels that.
  expect(worlds.length).toBeGreaterThan(1);
  expect(worlds.at(-1)?.world).not.toBe("pair-1");
  expect([...(worlds.at(-1)?.agents ?? [])].sort()).toEqual([0, 1]);
  const matches = events.filter(({ kind }) => kind === "matched").length;
  expect(matches).toBeGreaterThanOrEqual(worlds.length);
  expect(counts().tickets.waiting).toBe(0);
});

test("agents whose worlds always fail reject with the error", async () => {
  await using place = await house(() => 1);
  const { url } = place;
  const playing = playMatches({ matchmakers: [url], agents: 2, steps: 20, seed: 1n });
  await expect(playing).rejects.toThrow(/the ground gave way/);
});

test("a signal ends the search and the play, with a summary and without a remaining ticket", async () => {
  await using place = await house(never);
  const { url, counts } = place;
  const ended = new AbortController();
  const summary = await playMatches({
    matchmakers: [url],
    // With an odd number, one agent finds no match.
    agents: 3,
    steps: 1_000_000,
    seed: 1n,
    signal: ended.signal,
    onTimeStep: (_agent, step) => {
      if (step.last()) {
        ended.abort();
      }
      return undefined;
    },
  });
  expect(summary.endedEarly).toBe(true);
  expect(summary.sequences).toBeGreaterThan(0);
  expect(counts().tickets.waiting).toBe(0);
});

test("a signal ends the wait for agents that never join", async () => {
  await using place = await house(never);
  const { url, server } = place;
  const ended = new AbortController();
  const playing = playMatches({
    matchmakers: [url],
    agents: 1,
    steps: 1_000_000,
    seed: 1n,
    signal: ended.signal,
  });
  // The other ticket has a seat whose agent never joins.
  await matchmakerClient(url).findMatch();
  while (server.worlds()[0]?.agents !== 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  ended.abort();
  expect(await playing).toMatchObject({ steps: 0, endedEarly: true });
});
