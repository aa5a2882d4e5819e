// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, type Settings, t, tensor } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, type Peer } from "../../../testing/peer.ts";
import {
  createEnvironmentServer,
  type EnvironmentServerOptions,
} from "../../host/environment-server.ts";
import { defineEnvironment } from "../environment.ts";
import { refuse } from "../refuse.ts";
import { optional } from "../settings.ts";
import { required, type UntypedWorldDefinition } from "../world.ts";

/**
 * Ends at `goal`. An action of 13 throws, 14 is refused by `validate`, and 15 is refused by `step`.
 */
const counter = defineEnvironment({
  name: "counter",
  joinSettings: { goal: optional(t.int32()) },
  resetSettings: { start: optional(t.int32()) },
  actions: { add: t.int32({ min: -100, max: 100 }) },
  observations: { total: t.int32({ min: -50, max: 50 }), luck: t.int32() },
  create({ joinSettings, random }) {
    let total = 0;
    let luck = 0;
    return {
      reset({ start = 0 }) {
        total = start;
        luck = random.integer(0, 1_000_000);
        return { total, luck };
      },
      validate({ add }) {
        if (add === 14) {
          throw new DmEnvRpcError("INVALID_ARGUMENT", "14 is refused");
        }
      },
      step({ add = 1 }) {
        if (add === 13) {
          throw new Error("an accident");
        }
        if (add === 15) {
          throw refuse(new DmEnvRpcError("INVALID_ARGUMENT", "15 is refused late"));
        }
        total += add;
        const { goal = 3 } = joinSettings;
        const state = total === goal ? "terminated" : total > goal ? "interrupted" : "running";
        return { observation: { total, luck }, reward: add, state };
      },
    };
  },
});

interface Joined {
  readonly peer: Peer;
  readonly world: string;
  readonly server: ReturnType<typeof createEnvironmentServer>;
}

async function joined(
  definition: UntypedWorldDefinition,
  settings: Settings,
  options: Partial<EnvironmentServerOptions> = {},
): Promise<Joined> {
  const server = createEnvironmentServer({ worlds: [definition], ...options });
  const peer = connectPeer(server);
  const world = await peer.createWorld({ seed: 1n });
  await peer.join(world, settings);
  return { peer, world, server };
}

const add = (...numbers: number[]) => ({
  add: tensor("int32", [numbers.length], Int32Array.from(numbers)),
});

const mask = (...flags: number[]) => ({
  reset_mask: tensor("bool", [flags.length], Uint8Array.from(flags)),
});

const [first, mid, last] = [0, 1, 2];

describe("behaviour 70: a batch", () => {
  it("has every spec with a leading dimension, and step types, ends, returns, lengths and failures per slot", async () => {
    const bounded = defineEnvironment({
      name: "bounded",
      actions: { move: { by: t.float32([2], { min: [-1, -2], max: [1, 2] }) } },
      observations: { board: t.uint8([2, 3], { min: 0, max: 4 }), name: t.string() },
      create: () => ({
        reset: () => ({ board: 0, name: "a" }),
        step: ({ move }) => ({ observation: { board: 1, name: String(move?.by?.data) } }),
      }),
    });
    const { peer } = await joined(bounded, { batch: 2, autoreset: "same-step", discount: true });
    const shapes = (table: Peer["observations"]) =>
      Object.fromEntries(
        table?.entries.map(({ name, spec }) => [name, `${spec.dtype} [${spec.shape}]`]) ?? [],
      );
    expect(shapes(peer.actions)).toEqual({
      "move.by": "float32 [2,2]",
      reset_mask: "bool [2]",
      reset_seeds: "uint64 [2]",
    });
    expect(shapes(peer.observations)).toEqual({
      board: "uint8 [2,2,3]",
      name: "string [2]",
      reward: "float32 [2]",
      step_type: "uint8 [2]",
      terminated: "bool [2]",
      truncated: "bool [2]",
      discount: "float32 [2]",
      episode_return: "float64 [2]",
      episode_length: "int64 [2]",
      slot_failures: "uint32 [2]",
      "final.board": "uint8 [2,2,3]",
      "final.name": "string [2]",
    });
    const { min, max } = peer.actions?.byName.get("move.by")?.spec ?? {};
    expect([min, max]).toEqual([Float32Array.of(-1, -2, -1, -2), Float32Array.of(1, 2, 1, 2)]);
    expect(peer.observations?.byName.get("board")?.spec).toMatchObject({ min: 0, max: 4 });
    await peer.step();
    const by = tensor("float32", [2, 2], Float32Array.of(1, 2, -1, 0));
    expect((await peer.step({ "move.by": by })).observations).toMatchObject({
      board: [0, 1].map(() => [
        [1, 1, 1],
        [1, 1, 1],
      ]),
      name: ["1,2", "-1,0"],
    });
    await expect(peer.step({ "move.by": 3 })).rejects.toThrow(/^3: .*move.by/);
  });

  it("begins every slot with its first step, whose actions are ignored", async () => {
    const { peer } = await joined(counter, { batch: 2 });
    expect((await peer.step(add(13, 14))).observations).toMatchObject({
      total: [0, 0],
      reward: [0, 0],
      step_type: [first, first],
      terminated: [false, false],
      episode_length: [0n, 0n],
    });
  });

  it("begins a slot's next sequence in the step after its end in mode next-step, ignoring its action", async () => {
    const { peer } = await joined(counter, { batch: 3 });
    await peer.step();
    const ended = await peer.step(add(1, 3, 4));
    expect(ended.state).toBe("RUNNING");
    expect(ended.observations).toMatchObject({
      total: [1, 3, 4],
      reward: [1, 3, 4],
      step_type: [mid, last, last],
      terminated: [false, true, false],
      truncated: [false, false, true],
      episode_return: [1, 3, 4],
      episode_length: [1n, 1n, 1n],
    });
    expect((await peer.step(add(1, 13, 14))).observations).toMatchObject({
      total: [2, 0, 0],
      reward: [1, 0, 0],
      step_type: [mid, first, first],
      terminated: [false, false, false],
      truncated: [false, false, false],
      episode_return: [2, 0, 0],
      episode_length: [2n, 0n, 0n],
    });
  });

  it("begins a slot's next sequence in the step of its end in mode same-step, with the last observation as final", async () => {
    const { peer } = await joined(counter, { batch: 2, autoreset: "same-step" });
    const { observations: begun } = await peer.step();
    const { observations: ended } = await peer.step(add(1, 3));
    expect(ended).toMatchObject({
      total: [1, 0],
      reward: [1, 3],
      step_type: [mid, last],
      terminated: [false, true],
      episode_return: [1, 3],
      episode_length: [1n, 1n],
    });
    const slot1 = (name: string, of: typeof ended) => (of[name] as number[])[1];
    expect(slot1("final.total", ended)).toBe(3);
    expect(slot1("final.luck", ended)).toBe(slot1("luck", begun));
    expect(slot1("luck", ended)).not.toBe(slot1("luck", begun));
    expect((await peer.step(add(1, 1))).observations).toMatchObject({
      total: [2, 1],
      step_type: [mid, mid],
      terminated: [false, false],
      episode_return: [2, 1],
      episode_length: [2n, 1n],
    });
  });

  it("refuses a step of ended slots in mode disabled, unless reset_mask names them", async () => {
    const { peer } = await joined(counter, { batch: 3, autoreset: "disabled" });
    await peer.step();
    await peer.step(add(3, 1, 3));
    await expect(peer.step(add(1, 1, 1))).rejects.toThrow(/^9: .*ended: 0, 2; .*reset_mask/);
    await expect(peer.step({ ...add(1, 1, 1), ...mask(1, 0, 0) })).rejects.toThrow(/ended: 2;/);
    const { observations } = await peer.step({ ...add(13, 1, 13), ...mask(1, 0, 1) });
    expect(observations).toMatchObject({
      total: [0, 2, 0],
      step_type: [first, mid, first],
      reward: [0, 1, 0],
    });
  });

  it.each(["next-step", "same-step", "disabled"])(
    "in mode %s resets the slots that reset_mask names; a step without actions changes no other slot",
    async (autoreset) => {
      const { peer } = await joined(counter, { batch: 3, autoreset });
      await peer.step();
      await peer.step(add(1, 1, 2));
      expect((await peer.step(mask(0, 1, 0))).observations).toMatchObject({
        total: [1, 0, 2],
        reward: [0, 0, 0],
        step_type: [mid, first, mid],
        episode_return: [1, 0, 2],
        episode_length: [1n, 0n, 1n],
      });
      expect((await peer.step({ ...add(1, 13, 13), ...mask(0, 1, 1) })).observations).toMatchObject(
        { total: [2, 0, 0], step_type: [mid, first, first], episode_length: [2n, 0n, 0n] },
      );
    },
  );

  it("reports a slot's end until the slot begins again, even if steps with only reset_mask reset others", async () => {
    const { peer } = await joined(counter, { batch: 2 });
    await peer.step();
    await peer.step(add(3, 1));
    expect((await peer.step(mask(0, 1))).observations).toMatchObject({
      total: [3, 0],
      step_type: [last, first],
      terminated: [true, false],
    });
    expect((await peer.step(add(13, 1))).observations).toMatchObject({
      total: [0, 1],
      step_type: [first, mid],
    });
  });

  it("observes a discount if the join requests it", async () => {
    const { peer } = await joined(counter, { batch: 3, discount: true });
    expect((await peer.step()).observations["discount"]).toEqual([1, 1, 1]);
    expect((await peer.step(add(1, 3, 4))).observations["discount"]).toEqual([1, 0, 1]);
  });

  it("begins every slot's next sequence after a reset, with the settings of the reset", async () => {
    const { peer } = await joined(counter, { batch: 2 });
    await peer.step();
    await peer.step(add(1, 2));
    await peer.reset({ start: 2 });
    expect((await peer.step(add(13, 13))).observations).toMatchObject({
      total: [2, 2],
      step_type: [first, first],
    });
    await peer.step(add(1, 0));
    expect((await peer.step(add(1, 0))).observations).toMatchObject({ total: [2, 2] });
  });

  it("refuses the whole step, without any change, if one slot's environment refuses its actions", async () => {
    const { peer } = await joined(counter, { batch: 3 });
    await peer.step();
    await expect(peer.step(add(1, 1, 14))).rejects.toThrow(/^3: slot 2: 14 is refused/);
    expect((await peer.step(add(1, 1, 1))).observations["total"]).toEqual([1, 1, 1]);
  });

  it("requires required actions only in steps in which slots act", async () => {
    const strict = defineEnvironment({
      name: "strict",
      actions: { go: required(t.int32()) },
      observations: {},
      create: () => ({ reset: () => ({}), step: () => ({ observation: {} }) }),
    });
    const { peer } = await joined(strict, { batch: 2 });
    await peer.step();
    await expect(peer.step()).rejects.toThrow(/^3: .*"go" is missing/);
    expect((await peer.step(mask(1, 0))).observations["step_type"]).toEqual([first, first]);
  });

  it("awaits the promises of all environments in parallel", async () => {
    const open: (() => void)[] = [];
    const later = () => new Promise<void>((resolve) => open.push(resolve));
    const slow = defineEnvironment({
      name: "slow",
      actions: {},
      observations: { ticks: t.int32() },
      async create() {
        let ticks = 0;
        await later();
        return {
          async reset() {
            await later();
            ticks = 0;
            return { ticks };
          },
          async step() {
            await later();
            ticks += 1;
            return { observation: { ticks }, state: ticks === 2 ? "terminated" : "running" };
          },
        };
      },
    });
    const server = createEnvironmentServer({ worlds: [slow] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    const settle = async <T>(request: Promise<T>, calls: number): Promise<T> => {
      expect(await isBlocked(request)).toBe(true);
      expect(open).toHaveLength(calls);
      for (const resolve of open.splice(0)) {
        resolve();
      }
      return await request;
    };
    await settle(peer.join(world, { batch: 3, autoreset: "same-step" }), 3);
    await settle(peer.step(), 3);
    await settle(peer.step(), 3);
    const both = peer.step();
    expect(await isBlocked(both)).toBe(true);
    for (const resolve of open.splice(0)) {
      resolve();
    }
    expect((await settle(both, 3)).observations).toMatchObject({
      ticks: [0, 0, 0],
      "final.ticks": [2, 2, 2],
      terminated: [true, true, true],
    });
  });

  it("closes every environment when the agent leaves", async () => {
    let open = 0;
    const counted = defineEnvironment({
      name: "counted",
      actions: {},
      observations: {},
      create() {
        open += 1;
        return {
          reset: () => ({}),
          step: () => ({ observation: {} }),
          close() {
            open -= 1;
          },
        };
      },
    });
    const { peer } = await joined(counted, { batch: 5 });
    expect(open).toBe(5);
    await peer.leave();
    expect(open).toBe(0);
  });
});

describe("behaviour 71: the slots of a batch", () => {
  const lucks = async (settings: Settings, act?: (joined: Joined) => Promise<void>) => {
    const all = await joined(counter, settings);
    await all.peer.step();
    await act?.(all);
    return (await all.peer.step(mask(0, 0, 0))).observations["luck"] as number[];
  };
  const uint64 = (seed: bigint) => tensor("uint64", [], BigUint64Array.of(seed));
  const alone = async (seed: bigint) => {
    const { peer } = await joined(counter, { seed: uint64(seed) });
    return (await peer.step()).observations["luck"];
  };

  it("draw different numbers, and the same ones again for the same seed", async () => {
    const seen = await lucks({ batch: 3, seed: 7n });
    expect(new Set(seen).size).toBe(3);
    expect(await lucks({ batch: 3, seed: 7n })).toEqual(seen);
    expect(await lucks({ batch: 3 })).toEqual(await lucks({ batch: 3 }));
    expect(seen).toEqual([await alone(7n), await alone(8n), await alone(9n)]);
  });

  it("take their seeds from a list, or count up from one seed and wrap at 2^64", async () => {
    const seeds = tensor("uint64", [3], BigUint64Array.of(5n, 5n, 9n));
    expect(await lucks({ batch: 3, seeds })).toEqual([
      await alone(5n),
      await alone(5n),
      await alone(9n),
    ]);
    const top = 2n ** 64n - 1n;
    expect(await lucks({ batch: 3, seed: uint64(top) })).toEqual([
      await alone(top),
      await alone(0n),
      await alone(1n),
    ]);
  });

  it("are reseeded by reset_seeds where reset_mask resets them, while the others continue", async () => {
    const { peer } = await joined(counter, { batch: 3, seed: 1n });
    const begun = (await peer.step()).observations["luck"] as number[];
    await peer.step(add(1, 1, 1));
    const seeds = { reset_seeds: tensor("uint64", [3], BigUint64Array.of(7n, 8n, 9n)) };
    const { observations } = await peer.step({ ...mask(1, 0, 1), ...seeds });
    expect(observations).toMatchObject({ total: [0, 1, 0], step_type: [first, mid, first] });
    expect(observations["luck"]).toEqual([await alone(7n), begun[1], await alone(9n)]);
    await expect(peer.step({ ...add(1, 1, 1), ...seeds })).rejects.toThrow(/^3: .*only the seeds/);
  });

  it("are reseeded by a reset of the agent, and by a reset of the world", async () => {
    const first = await lucks({ batch: 3, seed: 7n });
    const other = { batch: 3, seed: 1n };
    const reset = (settings: Settings) => async (all: Joined) => {
      await all.peer.reset(settings);
      await all.peer.step();
    };
    expect(await lucks(other, reset({ seed: 7n }))).toEqual(first);
    const seeds = tensor("uint64", [3], BigUint64Array.of(7n, 8n, 9n));
    expect(await lucks(other, reset({ seeds }))).toEqual(first);
    expect(await lucks({ batch: 3, seeds }, reset({ seed: 7n }))).toEqual(first);
    expect(await lucks({ batch: 3, seed: 7n }, reset({}))).not.toEqual(first);
    const resetWorld = (settings: Settings) => async (all: Joined) => {
      await all.peer.resetWorld(all.world, settings);
      await all.peer.step();
    };
    const once = await lucks(other, resetWorld({ seed: 3n }));
    expect(await lucks(other, resetWorld({ seed: 3n }))).toEqual(once);
    expect(await lucks({ batch: 3, seeds }, resetWorld({ seed: 3n }))).toEqual(once);
    const twice = async (all: Joined) => {
      await resetWorld({ seed: 3n })(all);
      await resetWorld({ seed: 3n })(all);
    };
    expect(await lucks(other, twice)).toEqual(once);
  });
});

describe("behaviour 72: a slot that fails", () => {
  const told = () => {
    const failures: { count: number; slot: number; message: string }[] = [];
    const onEvent: EnvironmentServerOptions["onEvent"] = (event) => {
      if (event.kind === "slots-failed") {
        const { count, slot, error } = event;
        failures.push({ count, slot, message: error.message });
      }
    };
    return { failures, onEvent };
  };

  it("is interrupted with its last observation, recreated, counted and reported", async () => {
    const { failures, onEvent } = told();
    const { peer } = await joined(counter, { batch: 3 }, { onEvent });
    await peer.step();
    await peer.step(add(1, 2, 1));
    expect(await peer.step(add(1, 13, 13))).toMatchObject({
      state: "RUNNING",
      observations: {
        total: [2, 2, 1],
        reward: [1, 0, 0],
        step_type: [mid, last, last],
        terminated: [false, false, false],
        truncated: [false, true, true],
        episode_return: [2, 2, 1],
        episode_length: [2n, 2n, 2n],
        slot_failures: [0, 1, 1],
      },
    });
    expect(failures).toEqual([{ count: 2, slot: 1, message: "an accident" }]);
    expect((await peer.step(add(0, 0, 0))).observations).toMatchObject({
      total: [2, 0, 0],
      step_type: [mid, first, first],
      slot_failures: [0, 1, 1],
    });
  });

  it("begins its next sequence at once in mode same-step", async () => {
    const { peer } = await joined(counter, { batch: 2, autoreset: "same-step" });
    await peer.step();
    await peer.step(add(1, 2));
    const { observations } = await peer.step(add(1, 13));
    expect(observations).toMatchObject({ total: [2, 0], truncated: [false, true] });
    expect((observations["final.total"] as number[])[1]).toBe(2);
  });

  it("may have violated its specs, refused its actions in `step`, or never finished a step", async () => {
    const time = manualTime();
    const { failures, onEvent } = told();
    const { peer } = await joined(
      counter,
      { batch: 3, goal: 1000 },
      { onEvent, time, limits: { stepMs: 50 } },
    );
    await peer.step();
    expect((await peer.step(add(1, 51, 15))).observations).toMatchObject({
      total: [1, 0, 0],
      truncated: [false, true, true],
    });
    expect(failures).toMatchObject([
      { count: 2, slot: 1, message: expect.stringContaining("total") },
    ]);
    const hung = defineEnvironment({
      name: "hung",
      actions: { hang: t.bool() },
      observations: {},
      create: () => ({
        reset: () => ({}),
        step: ({ hang }) => (hang ? new Promise<never>(() => {}) : { observation: {} }),
      }),
    });
    const other = await joined(hung, { batch: 2 }, { onEvent, time, limits: { stepMs: 50 } });
    await other.peer.step();
    const step = other.peer.step({ hang: tensor("bool", [2], Uint8Array.of(0, 1)) });
    expect(await isBlocked(step)).toBe(true);
    time.advance(50);
    expect((await step).observations["truncated"]).toEqual([false, true]);
    expect(failures.at(-1)?.message).toContain("stepMs");
    expect((await other.peer.step()).observations["step_type"]).toEqual([mid, first]);
  });

  it("retries at each step; the world fails only if no slot can begin", async () => {
    let broken = new Set([1]);
    const fragile = defineEnvironment({
      name: "fragile",
      joinSettings: { seed: t.int32() },
      actions: {},
      observations: { x: t.int32({ min: 1, max: 9 }) },
      create: ({ joinSettings }) => ({
        reset() {
          if (broken.has(joinSettings.seed)) {
            throw new Error("does not begin");
          }
          return { x: 5 };
        },
        step: () => ({ observation: { x: 6 }, state: "terminated" }),
      }),
    });
    const { peer } = await joined(fragile, { batch: 3, seed: 0 });
    expect((await peer.step()).observations).toMatchObject({
      step_type: [first, last, first],
      truncated: [false, true, false],
      episode_length: [0n, 0n, 0n],
    });
    expect((await peer.step()).observations).toMatchObject({
      step_type: [last, last, last],
      slot_failures: [0, 2, 0],
    });
    broken = new Set();
    expect((await peer.step()).observations).toMatchObject({ x: [5, 5, 5] });
    await peer.step();
    broken = new Set([0, 1, 2]);
    await expect(peer.step()).rejects.toThrow(/^13: .*no slot can begin.*does not begin/);
  });

  it("that cannot be created fails the join, and the other slots are closed", async () => {
    let open = 0;
    const scarce = defineEnvironment({
      name: "scarce",
      actions: {},
      observations: {},
      create() {
        if (open === 3) {
          throw new DmEnvRpcError("RESOURCE_EXHAUSTED", "no more licences");
        }
        open += 1;
        return {
          reset: () => ({}),
          step: () => ({ observation: {} }),
          close: () => {
            open -= 1;
          },
        };
      },
    });
    const server = createEnvironmentServer({ worlds: [scarce] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await expect(peer.join(world, { batch: 4 })).rejects.toThrow(/^8: .*no more licences/);
    expect(open).toBe(0);
    await peer.join(world, { batch: 3 });
  });
});

describe("a join as a batch is refused", () => {
  const refused = async (
    definition: UntypedWorldDefinition,
    settings: Settings,
    message: RegExp,
    options: Partial<EnvironmentServerOptions> = {},
  ) => await expect(joined(definition, settings, options)).rejects.toThrow(message);

  const plain = (specs: Partial<UntypedWorldDefinition>) =>
    defineEnvironment({
      name: "plain",
      actions: {},
      observations: {},
      ...(specs as object),
      create: () => ({ reset: () => ({}), step: () => ({ observation: {} }) }),
    });

  it("for settings that a batch does not have", async () => {
    await refused(counter, { batch: 0 }, /^3: .*batch/);
    await refused(counter, { batch: 2, autoreset: "never" }, /^3: .*next-step.*"never"/);
    await refused(counter, { batch: 2, speed: 2 }, /^3: .*"speed"/);
    await refused(counter, { autoreset: "disabled" }, /^3: .*"autoreset"/);
    const seeds = tensor("uint64", [2], BigUint64Array.of(1n, 2n));
    await refused(counter, { batch: 3, seeds }, /^3: .*each of 3 slots, received 2/);
    await refused(counter, { batch: 2, seeds, seed: 1n }, /^3: .*both/);
    const { peer } = await joined(counter, { batch: 3 });
    await expect(peer.reset({ seeds })).rejects.toThrow(/^3: .*each of 3 slots/);
    await peer.step();
  });

  it("if the environment has a name that batches reserve, or a shape that is not fixed", async () => {
    await refused(plain({ observations: { terminated: t.bool() } }), { batch: 2 }, /"terminated"/);
    await refused(plain({ actions: { reset_mask: t.bool() } }), { batch: 2 }, /"reset_mask"/);
    await refused(plain({ joinSettings: { discount: optional(t.bool()) } }), { batch: 2 }, /disc/);
    const final = plain({ observations: { final: { score: t.int32() } } });
    await refused(final, { batch: 2, autoreset: "same-step" }, /"final.score"/);
    await joined(final, {});
    await refused(plain({ observations: { path: t.int32([-1]) } }), { batch: 2 }, /"path".*fixed/);
  });

  it("above the limits of slots, of agents, and of elements", async () => {
    const limits = { maxSlotsPerWorld: 10 };
    await refused(counter, { batch: 11 }, /^8: .*maxSlotsPerWorld/, { limits });
    const { server, world, peer } = await joined(counter, { batch: 6 }, { limits });
    const other = connectPeer(server);
    await expect(other.join(world, { batch: 5 })).rejects.toThrow(/at most 4 more slots/);
    await other.join(world, { batch: 4 });
    await connectPeer(server).join(world);
    await peer.leave();
    await connectPeer(server).join(world, { batch: 6 });
    const few = plain({ agents: { max: 3 } });
    await refused(few, { batch: 4 }, /^8: .*agents.max/);
    const three = await joined(few, { batch: 3 });
    await expect(connectPeer(three.server).join(three.world)).rejects.toThrow(/^8: /);
    const wide = plain({ observations: { image: t.uint8([100, 100]) } });
    await refused(wide, { batch: 11 }, /^8: .*"image".*maxElements/, {
      limits: { maxElements: 100_000 },
    });
  });
});
