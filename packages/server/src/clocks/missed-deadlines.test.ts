// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { clocks, waitingClocks } from "../../testing/clocks.ts";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import type { Clock, MissedDeadlinePolicy } from "../definition/clock.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

const deadlineMs = 50;

/** Three agents, the first of which is slow. */
async function setUp(clock: Clock) {
  const time = manualTime();
  const late: number[] = [];
  const server = createEnvironmentServer({
    worlds: [tally({ clock })],
    time,
    limits: { idleStreamMs: 0 },
    onEvent: (event) => {
      if (event.kind === "deadline-missed") {
        late.push(event.agent);
      }
    },
  });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100 });
  const [slow, two, three] = (await joinedPeers(server, world, 3)) as [Peer, Peer, Peer];
  const pass = async (periods: number): Promise<void> => {
    for (let period = 0; period < periods; period++) {
      await quiet();
      time.advance(deadlineMs);
    }
    await quiet();
  };
  return { late, slow, two, three, pass };
}

describe.each(waitingClocks)("behaviour 37: on the clock %s, a slow agent", (name) => {
  const make = (onMissedDeadline: MissedDeadlinePolicy) =>
    clocks[name].make({ deadlineMs, onMissedDeadline });

  it("misses the first-step deadline once, however long the world waits for it", async () => {
    const { late, two, three, pass } = await setUp(make("wait"));
    const begun = Promise.race([two.step(), three.step()]);
    await pass(5);
    expect(late).toEqual([1]);
    expect(await isBlocked(begun)).toBe(true);
  });

  it("misses the deadline of a step once, even if others step, and again the deadline of its next step", async () => {
    const { late, slow, two, three, pass } = await setUp(make("wait"));
    for (const peer of [slow, two, three]) {
      void peer.step();
    }
    await quiet();
    void two.step();
    await pass(3);
    void three.step();
    await pass(3);
    expect(late.filter((agent) => agent === 1)).toEqual([1]);
    for (const peer of [slow, two, three]) {
      void peer.step();
    }
    await pass(3);
    expect(late.filter((agent) => agent === 1)).toEqual([1, 1]);
  });

  it("misses one deadline for each tick that advances without it", async () => {
    const { late, slow, two, three, pass } = await setUp(make("default-action"));
    for (const peer of [slow, two, three]) {
      void peer.step();
    }
    for (let step = 0; step < 4; step++) {
      for (const peer of [two, three]) {
        void peer.step();
      }
    }
    await pass(3);
    expect(late).toEqual([1, 1, 1]);
  });
});
