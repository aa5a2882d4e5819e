// SPDX-License-Identifier: Apache-2.0
// Clocks of worlds that are blocked, whose agents leave, or whose sequence is cut short.
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { clockNames, clocks } from "../../testing/clocks.ts";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import type { AgentId } from "../definition/agent.ts";
import type { Clock } from "../definition/clock.ts";
import { refuse } from "../definition/refuse.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerEvent } from "../host/events.ts";
import { freeRunning } from "./free-running.ts";
import { realtime } from "./realtime.ts";
import { turns } from "./turns.ts";
import { wakeUp } from "./wake-up.ts";

async function setUp(count: number, options: TallyOptions) {
  const log: TallyEvent[] = [];
  const events: ServerEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({
    worlds: [tally({ log, ...options })],
    time,
    onEvent: (event) => void events.push(event),
  });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100 });
  const [one, two, three] = (await joinedPeers(server, world, count)) as [Peer, Peer, Peer];
  const pass = async (ms: number): Promise<void> => {
    await quiet();
    time.advance(ms);
    await quiet();
  };
  const missed = () => events.filter(({ kind }) => kind === "deadline-missed").length;
  return { log, events, time, server, host, world, one, two, three, pass, missed };
}

const ticks = (log: readonly TallyEvent[]) => log.filter((event) => event.startsWith("tick"));

/** Agents add to a total; the world's step refuses subtraction. */
const growing = (clock: Clock) =>
  defineWorld({
    name: "growing",
    clock,
    onLeave: "block",
    actions: { add: t.int32() },
    observations: { total: t.int32() },
    create() {
      let total = 0;
      return {
        step(actions) {
          for (const { add = 0 } of actions.values()) {
            if (add < 0) {
              throw refuse(new DmEnvRpcError("INVALID_ARGUMENT", "it only grows"));
            }
            total += add;
          }
        },
        observe: { total: () => total },
      };
    },
  });

async function grow(clock: Clock) {
  const server = createEnvironmentServer({ worlds: [growing(clock)] });
  const world = await connectPeer(server).createWorld();
  const [one, two, three] = (await joinedPeers(server, world, 3)) as [Peer, Peer, Peer];
  return { server, world, one, two, three };
}

it("clocks have names, and real time repeats actions by default", () => {
  expect(clockNames.map((name) => clocks[name].make().name)).toEqual(clockNames);
  expect(realtime({ ticksPerSecond: 1 })).toMatchObject({
    continuous: true,
    onMissedDeadline: "repeat-last",
  });
});

describe("freeRunning", () => {
  it("behaviour 68: continues with the next waiting step when the first one is refused", async () => {
    const { server, world, one, two, three } = await grow(freeRunning());
    await Promise.all([one.step(), two.step(), three.step()]);
    await three.leave();
    const waiting = [one.step({ add: -1 }), two.step({ add: 2 })];
    expect(await isBlocked(Promise.race(waiting))).toBe(true);
    await joinedPeers(server, world, 1);
    const outcomes = await Promise.allSettled(waiting);
    expect(outcomes).toMatchObject([
      { status: "rejected", reason: { message: expect.stringMatching(/it only grows/) } },
      { status: "fulfilled", value: { observations: { total: 2 } } },
    ]);
  });
});

describe("realtime", () => {
  it("behaviour 29: continues its tick schedule once the world is no longer blocked", async () => {
    const clock = realtime({ ticksPerSecond: 10 });
    const { one, two, server, world, log, events, pass } = await setUp(2, {
      clock,
      onLeave: "block",
    });
    await Promise.all([one.step(), two.step()]);
    await two.leave();
    await pass(100);
    await pass(100);
    expect(ticks(log)).toEqual([]);
    await joinedPeers(server, world, 1);
    await pass(100);
    await pass(100);
    expect(ticks(log)).toHaveLength(2);
    expect(events.filter(({ kind }) => kind === "ticks-missed")).toEqual([]);
  });
});

describe("turns", () => {
  const slow = { deadlineMs: 50, onMissedDeadline: "leave" } as const;

  it("behaviour 24: fails a world that gives the turn to an agent outside the sequence", async () => {
    const world = defineWorld({
      name: "wrong turn",
      clock: turns(),
      actions: {},
      observations: {},
      create: () => ({ step() {}, observe: {}, turn: () => 7 as AgentId }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const name = await connectPeer(server).createWorld();
    const [one] = (await joinedPeers(server, name, 1)) as [Peer];
    await expect(one.step()).rejects.toThrow(/^13: .*chose agent 7, which is not RUNNING/);
  });

  it("behaviour 37: counts no agent as late once the agent that waited has left", async () => {
    const { one, two, pass, missed } = await setUp(2, { clock: turns(slow) });
    const second = two.step();
    await one.step();
    void one.step({ add: 1 });
    await second;
    // It is agent two's turn, and agent one waits for it.
    await pass(40);
    one.drop();
    await pass(1_000);
    expect(missed()).toBe(0);
    expect((await two.step({ add: 1 })).state).toBe("RUNNING");
  });

  it("behaviour 29: counts no agent as late while the world is blocked, and does not advance until another has joined", async () => {
    const { one, two, three, server, world, log, pass, missed } = await setUp(3, {
      clock: turns(slow),
      onLeave: "block",
    });
    const [second, third] = [two.step(), three.step()];
    await one.step();
    void one.step({ add: 1 });
    await second;
    void two.step({ add: 1 });
    await third;
    // It is agent three's turn, and the others wait for it.
    expect(ticks(log)).toHaveLength(2);
    await pass(40);
    one.drop();
    await pass(1_000);
    expect(missed()).toBe(0);
    const blocked = three.step({ add: 4 });
    expect(await isBlocked(blocked)).toBe(true);
    expect(ticks(log)).toHaveLength(2);
    await joinedPeers(server, world, 1);
    await quiet();
    expect(ticks(log).at(-1)).toBe("tick 3:4");
  });

  it("behaviour 68: a move after a refused one is played, even if it waited for a blocked world", async () => {
    const { server, world, one, two, three } = await grow(turns());
    const [second, third] = [two.step(), three.step()];
    await one.step();
    await expect(one.step({ add: -1 })).rejects.toThrow(/it only grows/);
    void third.catch(() => {});
    three.drop();
    await quiet();
    const moved = one.step({ add: 5 });
    expect(await isBlocked(moved)).toBe(true);
    await joinedPeers(server, world, 1);
    expect((await second).observations["total"]).toBe(5);
  });
});

describe("wakeUp", () => {
  const slow = { deadlineMs: 50, onMissedDeadline: "leave", action: "sleep" } as const;

  it("behaviour 37: does not wait for sleeping agents that have left", async () => {
    const { one, two, three, log } = await setUp(3, { clock: wakeUp({ action: "sleep" }) });
    await Promise.all([one.step(), two.step(), three.step()]);
    void one.step({ sleep: 9 });
    const waiting = three.step({ sleep: 1 });
    await quiet();
    one.drop();
    expect(await isBlocked(waiting)).toBe(true);
    expect(ticks(log)).toEqual([]);
    await two.step({ sleep: 1 });
    expect((await waiting).state).toBe("RUNNING");
  });

  it("behaviour 29: counts no agent as late while the world is blocked", async () => {
    const { one, two, three, server, world, pass, missed } = await setUp(3, {
      clock: wakeUp(slow),
      onLeave: "block",
    });
    await Promise.all([one.step(), two.step(), three.step()]);
    const waiting = one.step({ sleep: 1 });
    await pass(40);
    await three.leave();
    await pass(1_000);
    expect(missed()).toBe(0);
    await joinedPeers(server, world, 1);
    await two.step({ sleep: 1 });
    expect((await waiting).state).toBe("RUNNING");
  });

  it("behaviour 37: cancels its deadline when the sequence is cut short and when all agents have stepped in time", async () => {
    const { one, two, host, world, pass, missed } = await setUp(2, { clock: wakeUp(slow) });
    await Promise.all([one.step(), two.step()]);
    const asleep = one.step({ sleep: 1 });
    await pass(40);
    const reset = host.resetWorld(world);
    expect((await asleep).state).toBe("INTERRUPTED");
    expect((await two.step()).state).toBe("INTERRUPTED");
    await reset;
    await Promise.all([one.step(), two.step()]);
    await pass(40);
    expect(missed()).toBe(0);
    // All agents step before the deadline, so it is cancelled and starts again at the next step.
    const early = one.step({ sleep: 1 });
    await pass(30);
    await two.step({ sleep: 1 });
    await early;
    const again = one.step({ sleep: 1 });
    await pass(30);
    expect(missed()).toBe(0);
    await two.step({ sleep: 1 });
    await again;
  });
});
