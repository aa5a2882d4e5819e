// SPDX-License-Identifier: Apache-2.0
import { type PackValue, type TensorSpec, t } from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import { describe, expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer, type StepResult } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import type { AgentId } from "../definition/agent.ts";
import { type ObservationChecks, sampleEvery } from "../definition/observation-checks.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { Observing } from "./observing.ts";
import { RewardSum } from "./rewards.ts";
import { SeatSpecs } from "./seat-specs.ts";

/** A world whose observations `make` computes, step by step. */
async function play(
  make: (step: number) => unknown,
  steps: number,
  checkObservations: ObservationChecks,
  bounds: { readonly min?: number; readonly max?: number } = { min: 0, max: 9 },
): Promise<number> {
  let step = 0;
  const world = defineWorld({
    name: "careless",
    actions: {},
    observations: { row: t.int32([2], bounds), free: t.int32([2]) },
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
  it("behaviour 17: outside their bounds fail the world", async () => {
    expect(await play(outside, 200, "always")).toBe(1);
  });

  it("behaviour 17: with bounds are checked once in 61 times in mode `sampled`", async () => {
    expect(await play(outside, 200, "sampled")).toBe(sampleEvery);
  });

  it.each([{ min: 0, max: 9 }, { min: 0 }, { max: 9 }])(
    "behaviour 17: are not checked against bounds %j when checks are off",
    async (bounds) => {
      const beyond = (step: number) => Int32Array.of(step === 0 ? 0 : 10, step === 0 ? 9 : -1);
      expect(await play(beyond, 200, "off", bounds)).toBe(200);
      expect(await play(beyond, 200, "always", bounds)).toBe(1);
    },
  );

  it.each(["always", "sampled", "off"] as const)(
    "behaviour 36: with another dtype or length are never sent, with checks %s",
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

  it("behaviour 63: adds up rewards although the world reuses their memory", async () => {
    const [one, two] = await twoAgents();
    await one.step();
    await one.step();
    expect((await two.step()).observations["reward"]).toEqual([2220, 2220]);
    expect((await one.step()).observations["reward"]).toEqual([11000, 11000]);
  });

  it("behaviour 63: adds up rewards that are packed as a single repeated element", async () => {
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

  it("behaviour 61: an undelivered end does not change when the world is observed again", async () => {
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

  it("behaviour 36: holds the right values for each of many responses in flight", async () => {
    const [one, two] = await twoAgents();
    const steps = Array.from({ length: 50 }, () => [one.step(), two.step()]).flat();
    const seen = (await Promise.all(steps)).map(({ observations }) => observations["tick"]);
    expect([...seen].sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
  });
});

/**
 * Plays a free-running world with these rewards, one for each tick: one agent steps in all ticks but
 * the last. Returns the result of the other agent's step in the last tick.
 */
async function lateReward(spec: TensorSpec, rewards: readonly PackValue[]): Promise<StepResult> {
  let tick = 0;
  const world = defineWorld({
    name: "paying",
    actions: {},
    observations: { reward: spec },
    clock: freeRunning(),
    create: () => ({
      step() {
        tick += 1;
      },
      observe: { reward: () => rewards[tick - 1] ?? 0 } as never,
    }),
  });
  await using server = createEnvironmentServer({ worlds: [world] });
  const name = await connectPeer(server).createWorld();
  const [one, two] = (await joinedPeers(server, name, 2)) as [Peer, Peer];
  await Promise.all([one.step({}, []), two.step({}, [])]);
  for (let i = 1; i < rewards.length; i++) {
    await one.step({}, []);
  }
  return await two.step();
}

describe("behaviour 63: the rewards of ticks without a response", () => {
  it("add up, and only the sum must fit the dtype", async () => {
    const { observations } = await lateReward(t.int8(), [100, 27, -1]);
    expect(observations["reward"]).toBe(126);
  });

  it.each<[string, TensorSpec, readonly PackValue[], RegExp]>([
    ["do not fit their dtype", t.int8(), [100, 27, 1], /a sum that fits int8, received 128/],
    ["are not numeric", t.string(), ["won", "lost", "won"], /a numeric dtype.*received string/],
    [
      "change their size",
      t.float32([-1]),
      [Float32Array.of(1), Float32Array.of(1, 2), Float32Array.of(1)],
      /1 elements, as in the ticks before, received 2/,
    ],
  ])("fail the world if they %s", async (_what, spec, rewards, text) => {
    const failure = await lateReward(spec, rewards).catch(String);
    expect(failure).toMatch(/13: .*"observe\.reward" failed: /);
    expect(failure).toMatch(text);
  });
});

describe("the functions of observations", () => {
  const specs = new SeatSpecs(
    {},
    { at: t.int32(), arm: { left: t.float64() }, reward: t.int32() },
    9,
  );
  const named = (...names: string[]): SpecEntry[] =>
    names.map((name) => specs.observations.byName.get(name) as SpecEntry);
  const observe = {
    at: (agent: number) => agent,
    arm: { left: () => 0.5, label: "left", last: null },
    reward: () => 3,
    notes: "of the author",
  };

  it("may be mixed with non-function properties in `observe`", () => {
    const observing = new Observing(observe, "always");
    expect(() => observing.check(specs)).not.toThrow();
    const [left] = observing.observe(1 as AgentId, new RewardSum(), named("arm.left"));
    expect(left?.tensor).toEqual({ dtype: "float64", shape: [], data: Float64Array.of(0.5) });
  });

  it("write numbers into memory that the next response of the same observations reuses", () => {
    const observing = new Observing(observe, "always");
    const [all, some] = [named("at", "reward"), named("at")];
    const respond = (agent: number, list: SpecEntry[]) => {
      const reward = new RewardSum();
      reward.isDue = true;
      return [...observing.observe(agent as AgentId, reward, list)];
    };
    const first = respond(1, all);
    expect(first.map(({ tensor }) => tensor.data)).toEqual([Int32Array.of(1), Int32Array.of(3)]);
    const other = respond(2, some);
    const again = respond(4, all);
    expect(again[0]?.tensor.data).toEqual(Int32Array.of(4));
    expect(other[0]?.tensor.data).toEqual(Int32Array.of(2));
    for (const index of [0, 1]) {
      expect(again[index]).toBe(first[index]);
    }
  });
});
