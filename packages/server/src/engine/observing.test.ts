// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import type { ObservationChecks } from "../definition/observation-checks.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

/** A world whose observations `make` computes, step by step. */
async function play(
  make: (step: number) => unknown,
  steps: number,
  checkObservations: ObservationChecks,
): Promise<number> {
  let step = 0;
  const world = defineWorld({
    name: "careless",
    actions: {},
    observations: { row: t.int32([2], { min: 0, max: 9 }), free: t.int32([2]) },
    create: () => ({
      step() {
        step += 1;
      },
      observe: { row: () => make(step) as Int32Array, free: () => new Int32Array(2) },
    }),
  });
  await using server = createEnvironmentServer({ worlds: [world], checkObservations });
  const peer = connectPeer(server);
  await peer.join(await peer.createWorld());
  for (let i = 0; i < steps; i++) {
    try {
      await peer.step();
    } catch (error) {
      expect(String(error)).toMatch(/13: .*careless-1.*observe\.row.*"row"/);
      return i;
    }
  }
  return steps;
}

const outside = (step: number) => Int32Array.of(0, step === 0 ? 9 : 10);

describe("observations", () => {
  it("behaviour 17: outside their bounds are the world's failure", async () => {
    expect(await play(outside, 200, "always")).toBe(1);
  });

  it("behaviour 17: are found to be outside their bounds sooner or later when sampled", async () => {
    const found = await play(outside, 200, "sampled");
    expect(found).toBeGreaterThan(1);
    expect(found).toBeLessThan(100);
  });

  it("behaviour 17: are not held to their bounds when checks are off", async () => {
    expect(await play(outside, 200, "off")).toBe(200);
  });

  it.each(["always", "sampled", "off"] as const)(
    "behaviour 36: of another dtype or length never go out, with checks %s",
    async (checks) => {
      const bad = [new Int32Array(3), new Float32Array(2), [1, 2, 3], "no", undefined, 1.5];
      for (const value of bad) {
        const make = (step: number) => (step < 3 ? new Int32Array(2) : value);
        expect(await play(make, 10, checks)).toBe(3);
      }
    },
  );
});

describe("the memory of observations", () => {
  /** Counts ticks in tensors that it reuses. */
  const thrifty = defineWorld({
    name: "thrifty",
    actions: { out: t.int32() },
    observations: {
      tick: t.int32(),
      mine: t.float64(),
      row: t.int32([2]),
      reward: t.float32([2]),
    },
    clock: freeRunning(),
    create() {
      let tick = 0;
      let gone = 0;
      const row = new Int32Array(2);
      const reward = new Float32Array(2);
      return {
        start() {
          tick = 0;
          gone = 0;
        },
        step(actions) {
          tick += 1;
          row.fill(tick);
          for (const { out = gone } of actions.values()) {
            gone = out;
          }
        },
        status: (agent) => (agent === gone ? "interrupted" : "running"),
        observe: {
          tick: () => tick,
          mine: (agent) => agent + tick / 100,
          row: () => row,
          reward: (agent) => reward.fill(agent * 10 ** tick),
        },
      };
    },
  });

  async function twoAgents(): Promise<[Peer, Peer]> {
    const server = createEnvironmentServer({ worlds: [thrifty] });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    return [one, two];
  }

  it("behaviour 63: adds up rewards that the world writes over", async () => {
    const [one, two] = await twoAgents();
    await one.step();
    await one.step();
    expect((await two.step()).observations["reward"]).toEqual([2220, 2220]);
    expect((await one.step()).observations["reward"]).toEqual([11000, 11000]);
  });

  it("behaviour 63: adds up rewards that are packed as one element for all", async () => {
    let tick = 0;
    const whole = (...data: number[]) =>
      ({ dtype: "float32", shape: [2], data: Float32Array.from(data) }) as const;
    const world = defineWorld({
      name: "packed",
      actions: {},
      observations: { reward: t.float32([2]) },
      clock: freeRunning(),
      create: () => ({
        step() {
          tick += 1;
        },
        observe: { reward: () => (tick % 2 === 0 ? whole(1) : whole(10, 20)) },
      }),
    });
    await using server = createEnvironmentServer({ worlds: [world] });
    const name = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, name, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    for (let i = 0; i < 3; i++) {
      await one.step();
    }
    expect((await two.step()).observations["reward"]).toEqual([22, 42]);
  });

  it("behaviour 61: keeps what an agent is owed as it was, whatever is observed after it", async () => {
    const [one, two] = await twoAgents();
    await one.step();
    await one.step({ out: 2 });
    await one.step();
    expect((await one.step()).observations).toMatchObject({ tick: 4, mine: 1.04, row: [4, 4] });
    expect(await two.step()).toEqual({
      state: "INTERRUPTED",
      observations: { tick: 2, mine: 2.02, row: [2, 2], reward: [220, 220] },
    });
  });

  it("behaviour 36: gives each of many answers in flight its own numbers", async () => {
    const [one, two] = await twoAgents();
    const steps = Array.from({ length: 50 }, () => [one.step(), two.step()]).flat();
    const seen = (await Promise.all(steps)).map(({ observations }) => observations["tick"]);
    expect([...seen].sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
  });
});
