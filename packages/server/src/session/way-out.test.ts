// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { clocks, waitingClocks } from "../../testing/clocks.ts";
import { connectPeer, isBlocked, joinedPeers, type Peer } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { realtime } from "../clocks/realtime.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

async function setUp(options: TallyOptions = {}) {
  const log: TallyEvent[] = [];
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })] });
  const world = await connectPeer(server).createWorld({ length: 100 });
  const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
  return { log, world, one, two };
}

/** The outcome of each request: `done`, or its error. */
async function outcomes(requests: readonly Promise<unknown>[]): Promise<string[]> {
  const settled = await Promise.allSettled(requests);
  return settled.map((result) => (result.status === "rejected" ? String(result.reason) : "done"));
}

const cancelled = /^Error: 1: this agent left while its request waited for other agents/;

describe("behaviour 67: an agent whose request waits for others can leave at once", () => {
  it("from the barrier of first steps", async () => {
    const { one, two, log } = await setUp();
    const [step, left] = await outcomes([one.step(), one.leave()]);
    expect(step).toMatch(cancelled);
    expect(left).toBe("done");
    expect(log).toContain("leave 1");
    expect((await two.step()).state).toBe("RUNNING");
  });

  it.each(waitingClocks)("from a step on %s, and the others continue", async (name) => {
    const { one, two, log } = await setUp({ clock: clocks[name].make() });
    const firsts = [one.step(), two.step()];
    await firsts[0];
    const waiting = one.step({ add: 1 });
    await firsts[1];
    expect(await isBlocked(waiting)).toBe(true);
    const [stepped, left] = await outcomes([waiting, one.leave()]);
    expect(stepped).toMatch(cancelled);
    expect(left).toBe("done");
    expect((await two.step({ add: 5 })).state).toBe("RUNNING");
    expect(log.filter((event) => event === "leave 1")).toHaveLength(1);
  });

  it("from a reset that waits for the end of the others' sequence", async () => {
    const { one, two } = await setUp({ onReset: "wait" });
    await Promise.all([one.step(), two.step()]);
    const [reset, left] = await outcomes([one.reset(), one.leave()]);
    expect(reset).toMatch(cancelled);
    expect(left).toBe("done");
    expect((await two.step()).state).toBe("RUNNING");
  });

  it("with steps queued between: each is answered, in order", async () => {
    const { one, two } = await setUp();
    await Promise.all([one.step(), two.step()]);
    const requests = [one.step(), one.step(), one.step(), one.leave()];
    const [first, second, third, left] = await outcomes(requests);
    expect(first).toMatch(cancelled);
    expect(second).toMatch(/^Error: 9: /);
    expect(third).toMatch(/^Error: 9: /);
    expect(left).toBe("done");
  });

  it("and joins again on the same stream", async () => {
    const { one, two, world } = await setUp();
    await Promise.all([one.step(), two.step()]);
    await outcomes([one.step(), one.leave()]);
    await one.join(world);
    expect((await one.step()).state).toBe("RUNNING");
    const [again, others] = await Promise.all([one.step({ add: 1 }), two.step({ add: 1 })]);
    expect([again.observations["total"], others.observations["total"]]).toEqual([2, 2]);
  });
});

describe("behaviour 67: an agent can leave while its request waits, also", () => {
  it("from a real-time world that waits for another agent to join", async () => {
    const { one, two } = await setUp({
      clock: realtime({ ticksPerSecond: 1_000 }),
      onLeave: "block",
    });
    await Promise.all([one.step(), two.step()]);
    await two.leave();
    const [step, left] = await outcomes([one.step(), one.leave()]);
    expect(step).toMatch(cancelled);
    expect(left).toBe("done");
  });

  it("if the author's leave throws: the world fails, and both requests are answered", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: {},
      observations: {},
      create: () => ({
        leave() {
          throw new Error("never leaves");
        },
        step() {},
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [broken] });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const [step, left] = await outcomes([one.step(), one.leave()]);
    expect(step).toMatch(cancelled);
    expect(left).toBe("done");
    await expect(two.step()).rejects.toThrow(/failed and is gone/);
  });
});

describe("behaviour 3: a leave does not overtake requests that wait only for the world", () => {
  it("steps in flight on freeRunning are played", async () => {
    const { one, two } = await setUp({ clock: freeRunning() });
    await Promise.all([one.step(), two.step()]);
    const requests = [
      one.step({ add: 1 }),
      one.step({ add: 1 }),
      one.step({ add: 1 }),
      one.leave(),
    ];
    expect(await outcomes(requests)).toEqual(["done", "done", "done", "done"]);
    expect((await two.step()).observations).toMatchObject({ total: 3 });
  });

  it("a step on wakeUp continues while other worlds have their turn", async () => {
    const log: TallyEvent[] = [];
    const clock = wakeUp({ action: "sleep" });
    const time = manualTime();
    const jumpy = { now: () => time.now(), after: time.after };
    const server = createEnvironmentServer({ worlds: [tally({ log, clock })], time: jumpy });
    const world = await connectPeer(server).createWorld({ length: 100_000 });
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    // Time jumps occasionally, so that the clock rests between ticks.
    let looks = 0;
    jumpy.now = () => {
      looks += 1;
      if (looks % 3 === 0) {
        time.advance(100);
      }
      return time.now();
    };
    await one.step();
    const requests = [one.step({ sleep: 5 }), one.step({ sleep: 5 }), one.leave()];
    expect(await outcomes(requests)).toEqual(["done", "done", "done"]);
    expect(log.filter((event) => event.startsWith("tick"))).toHaveLength(10);
  });

  it("a step whose author's promise is pending continues", async () => {
    let played = 0;
    const slow = defineWorld({
      name: "slow",
      actions: {},
      observations: {},
      clock: freeRunning(),
      create: () => ({
        step: async () => {
          await new Promise((resolve) => setImmediate(resolve));
          played += 1;
        },
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [slow] });
    const [one] = (await joinedPeers(server, await connectPeer(server).createWorld(), 1)) as [Peer];
    await one.step();
    const requests = [one.step(), one.step(), one.step(), one.leave()];
    expect(await outcomes(requests)).toEqual(["done", "done", "done", "done"]);
    expect(played).toBe(3);
  });
});
