// SPDX-License-Identifier: Apache-2.0
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { connectPeer, type Peer, type StepResult } from "../../../testing/peer.ts";
import { createEnvironmentServer } from "../../host/environment-server.ts";
import { defineEnvironment } from "../environment.ts";
import type { SeededRandom } from "../random.ts";
import { withDefault } from "../settings.ts";

/**
 * An environment with random observations, rewards and ends, and with every kind of observation.
 */
const specs = {
  settings: {
    mean_length: t.float64(),
    is_async: withDefault(t.bool(), false),
  },
  joinSettings: { loaded: withDefault(t.int32(), 0) },
  resetSettings: { offset: withDefault(t.int32(), 0) },
  actions: { bet: t.int32(), hand: { cards: t.uint8([3]) } },
  observations: {
    face: t.int32({ min: -1000, max: 1000 }),
    odds: t.float32([3]),
    table: { cards: t.uint8([2, 2]), bank: t.float64([20]), open: t.bool() },
    rolls: t.int64(),
    text: t.string(),
  },
} as const;

interface Played {
  readonly settings: { readonly mean_length: number; readonly is_async: boolean };
  readonly joinSettings: { readonly loaded: number };
  readonly random: SeededRandom;
}

interface Bet {
  readonly bet?: number;
  readonly hand?: { readonly cards?: { readonly data: Uint8Array } };
}

function play({ settings, joinSettings, random }: Played) {
  let rolls = 0;
  let bet = 0;
  let offset = 0;
  const roll = () => {
    rolls += 1;
    const face = random.integer(1, 6) + joinSettings.loaded + offset;
    return {
      face,
      odds: [random.next(), -0, Number.NaN],
      table: {
        cards: [
          [face & 7, 1],
          [2, random.integer(0, 255)],
        ],
        bank: Float64Array.from({ length: 20 }, () => random.next()),
        open: random.next() < 0.5,
      },
      rolls: BigInt(rolls),
      text: `${face}/${bet}`,
    };
  };
  return {
    reset(changed: { readonly offset?: number }) {
      offset = changed.offset ?? 0;
      return roll();
    },
    step({ bet: placed = -1, hand }: Bet) {
      bet = placed + (hand?.cards?.data[1] ?? 0);
      const draw = random.next() * settings.mean_length;
      return {
        observation: roll(),
        reward: bet * random.next(),
        state: draw < 0.5 ? "terminated" : draw < 1 ? "interrupted" : "running",
      } as const;
    },
  };
}

const later = async <T>(value: T): Promise<T> => value;

const dice = defineEnvironment({
  name: "dice",
  ...specs,
  create(context) {
    const one = play(context);
    const { is_async: isAsync } = context.settings;
    let steps = 0;
    return {
      reset: (changed) => (isAsync ? later(one.reset(changed)) : one.reset(changed)),
      step(action) {
        steps += 1;
        return isAsync && steps % 2 === 0 ? later(one.step(action)) : one.step(action);
      },
    };
  },
});

/** The same environment, simulated in arrays. */
const diceInArrays = defineEnvironment({
  name: "dice-in-arrays",
  ...specs,
  create: play,
  createBatch({ settings, joinSettings, random, observation, reward, terminated, interrupted }) {
    const ones = random.map((source) => play({ settings, joinSettings, random: source }));
    const at = (slot: number) => ones[slot] as ReturnType<typeof play>;
    const write = (slot: number, made: ReturnType<ReturnType<typeof play>["reset"]>) => {
      observation.face[slot] = made.face;
      observation.odds.set(made.odds, 3 * slot);
      observation.table.cards.set(made.table.cards.flat(), 4 * slot);
      observation.table.bank.set(made.table.bank, 20 * slot);
      observation.table.open[slot] = made.table.open ? 1 : 0;
      observation.rolls[slot] = made.rolls;
      observation.text[slot] = made.text;
    };
    const done = settings.is_async ? later(undefined) : undefined;
    return {
      reset(slots, changed) {
        for (const slot of slots) {
          write(slot, at(slot).reset(changed));
        }
        return done;
      },
      step({ bet, hand }, slots) {
        for (const slot of slots) {
          const cards = hand?.cards?.subarray(3 * slot, 3 * slot + 3);
          const made = at(slot).step({
            ...(bet !== undefined && { bet: bet[slot] as number }),
            ...(cards !== undefined && { hand: { cards: { data: cards } } }),
          });
          write(slot, made.observation);
          reward[slot] = made.reward;
          terminated[slot] = made.state === "terminated" ? 1 : 0;
          interrupted[slot] = made.state === "interrupted" ? 1 : 0;
        }
        return done;
      },
    };
  },
});

const observed = ["face", "odds", "table.cards", "table.bank", "table.open", "rolls", "text"];

/** State of a slot after a step. */
interface Told {
  readonly observation: Readonly<Record<string, unknown>>;
  readonly final: Readonly<Record<string, unknown>> | undefined;
  readonly reward: number;
  readonly stepType: number;
  readonly terminated: boolean;
  readonly truncated: boolean;
  readonly length: bigint;
}

/** A single environment of one agent, driven as Gymnasium drives a slot of a vector. */
class Alone {
  readonly #peer: Peer;
  readonly #mode: string;
  #state = "TERMINATED";
  #told: Told | undefined;

  constructor(peer: Peer, mode: string) {
    this.#peer = peer;
    this.#mode = mode;
  }

  get isOver(): boolean {
    return this.#state !== "RUNNING";
  }

  async begin(): Promise<Told> {
    if (!this.isOver) {
      await this.#peer.reset();
    }
    const { observations } = await this.#step({});
    return this.#tell(observations, { stepType: 0, reward: 0, length: 0n });
  }

  async act(actions: Parameters<Peer["step"]>[0]): Promise<Told> {
    if (this.isOver) {
      return await this.begin();
    }
    const length = this.#told?.stepType === 2 ? 1n : ((this.#told as Told).length as bigint) + 1n;
    const { state, observations } = await this.#step(actions);
    const reward = observations["reward"] as number;
    if (state === "RUNNING") {
      return this.#tell(observations, { stepType: 1, reward, length });
    }
    const ended = { stepType: 2, reward, length, terminated: state === "TERMINATED" };
    if (this.#mode !== "same-step") {
      return this.#tell(observations, ended);
    }
    const begun = await this.#step({});
    return this.#tell(begun.observations, { ...ended, final: pick(observations) });
  }

  hold(): Told {
    this.#told = { ...(this.#told as Told), reward: 0 };
    return this.#told;
  }

  async #step(actions: Parameters<Peer["step"]>[0]): Promise<StepResult> {
    const result = await this.#peer.step(actions);
    this.#state = result.state;
    return result;
  }

  #tell(
    observations: StepResult["observations"],
    told: Pick<Told, "stepType" | "reward" | "length"> & Partial<Told>,
  ): Told {
    const terminated = told.terminated ?? false;
    this.#told = {
      observation: pick(observations),
      final: undefined,
      ...told,
      terminated,
      truncated: told.stepType === 2 && !terminated,
    };
    return this.#told;
  }
}

const pick = (observations: Readonly<Record<string, unknown>>, prefix = "", slot?: number) =>
  Object.fromEntries(
    observed.map((name) => {
      const value = observations[prefix + name];
      return [name, slot === undefined ? value : (value as unknown[])[slot]];
    }),
  );

function toldOf(observations: StepResult["observations"], slot: number, isSameStep: boolean): Told {
  const at = <T>(name: string): T => (observations[name] as T[])[slot] as T;
  const stepType = at<number>("step_type");
  const hasEnded = at<boolean>("terminated") || at<boolean>("truncated");
  return {
    observation: pick(observations, "", slot),
    final: isSameStep && hasEnded ? pick(observations, "final.", slot) : undefined,
    reward: at("reward"),
    stepType,
    terminated: at("terminated"),
    truncated: at("truncated"),
    length: at("episode_length"),
  };
}

/** One step: each slot's bet, and true if it begins a new sequence. */
const steps = fc.array(
  fc.record({
    bets: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 4, maxLength: 4 }),
    mask: fc.option(fc.array(fc.boolean(), { minLength: 4, maxLength: 4 })),
    isAlone: fc.boolean(),
    withHand: fc.boolean(),
  }),
  { maxLength: 25, size: "max" },
);

describe("behaviour 71: a slot of a batch", () => {
  it.each(
    ["next-step", "same-step", "disabled"].flatMap((mode) =>
      [dice, diceInArrays].map((world) => [world.name, mode, world] as const),
    ),
  )(
    "of %s in mode %s has the same results as a single environment with the same seed",
    async (_name, autoreset, definition) => {
      const isSameStep = autoreset === "same-step";
      await fc.assert(
        fc.asyncProperty(
          steps,
          fc.integer({ min: 1, max: 4 }),
          fc.bigInt({ min: 0n, max: 1000n }),
          fc.boolean(),
          async (plan, size, seed, isAsync) => {
            const server = createEnvironmentServer({ worlds: [definition] });
            const batch = connectPeer(server);
            const world = await batch.createWorld({ mean_length: 4, is_async: isAsync });
            const loaded = 7;
            await batch.join(world, { batch: size, autoreset, seed, loaded });
            const alone: Alone[] = [];
            for (let slot = 0; slot < size; slot++) {
              const peer = connectPeer(server);
              await peer.join(world, { seed: seed + BigInt(slot), loaded });
              alone.push(new Alone(peer, autoreset));
            }
            const compare = async (expected: Promise<Told>[], step: Promise<StepResult>) => {
              const { observations, state } = await step;
              expect(state).toBe("RUNNING");
              const told = await Promise.all(expected);
              expect(told.map((_, slot) => toldOf(observations, slot, isSameStep))).toEqual(told);
            };
            await compare(
              alone.map((slot) => slot.begin()),
              batch.step(),
            );
            for (const { bets, mask, isAlone, withHand } of plan) {
              const bet = tensor("int32", [size], Int32Array.from(bets.slice(0, size)));
              const cards = Uint8Array.from({ length: 3 * size }, (_, i) => i);
              const hand = withHand && { "hand.cards": tensor("uint8", [size, 3], cards) };
              const isResetAlone = mask !== null && isAlone;
              const begins = (slot: number) =>
                mask?.[slot] === true ||
                (autoreset === "disabled" && alone[slot]?.isOver === true && !isResetAlone);
              const flags = Uint8Array.from(alone, (_, slot) => (begins(slot) ? 1 : 0));
              const isMasked = mask !== null || flags.includes(1);
              await compare(
                alone.map(async (one, slot) => {
                  if (begins(slot)) {
                    return await one.begin();
                  }
                  const own = withHand && { "hand.cards": cards.slice(3 * slot, 3 * slot + 3) };
                  const action = { bet: bets[slot] as number, ...own };
                  return isResetAlone ? one.hold() : await one.act(action as never);
                }),
                batch.step({
                  ...(!isResetAlone && { bet, ...hand }),
                  ...(isMasked && { reset_mask: tensor("bool", [size], flags) }),
                }),
              );
            }
          },
        ),
        { numRuns: 20 },
      );
    },
    120_000,
  );
});
