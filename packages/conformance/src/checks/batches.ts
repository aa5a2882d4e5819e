// SPDX-License-Identifier: Apache-2.0
import { pack, type Settings, type Tensor, tensor, unpack } from "@dm-env-rpc/tensor-codec";
import type { SpecTable } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentConnection } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat, Mismatch } from "../mismatch.ts";
import { requests } from "../requests.ts";
import type { Stage } from "../stage.ts";
import { needsAll, needsBatches, needsSeats, needsShortSequence } from "./needs.ts";

const slots = 3;
const [first, last] = [0, 2];
const mostSteps = 1_000;
const section = 'behaviours.md, "Batches and several seats"';

/** Observations that every slot has, with their dtypes. */
const slotObservations = {
  step_type: "uint8",
  terminated: "bool",
  truncated: "bool",
  episode_return: "float64",
  episode_length: "int64",
} as const;

const rowObservations = { step_type: "uint8", terminated: "bool", truncated: "bool" } as const;

/** Behaviours 70, 71 and 73: batches of environments, and several seats on one stream. */
export const batchChecks: readonly Check[] = [
  ...checksOf(70, section, {
    "leading-dimension": {
      title:
        "In a batch, every spec has a leading dimension, and every slot its step type and ends.",
      notFor: needsBatches,
      async run(stage) {
        const { alone, batch } = await both(stage, {});
        hasLeading(alone.actions, batch.actions, slots, { reset_mask: "bool" });
        hasLeading(alone.observations, batch.observations, slots, slotObservations);
      },
    },
    "first-step": {
      title: "The first step of a batch starts the sequence of every slot and returns RUNNING.",
      notFor: needsBatches,
      async run(stage) {
        const batch = await joined(stage, { batch: count(slots) });
        const { state, of } = await step(batch);
        expectThat(state === "RUNNING", "RUNNING", state);
        expectAll(of("step_type"), first, "step_type 0 in every slot");
        expectAll(of("episode_length"), 0, "episode_length 0 in every slot");
      },
    },
    "next-step": {
      title: "In mode next-step, a slot starts its next sequence in the step after its end.",
      notFor: needsAll(needsBatches, needsShortSequence),
      async run(stage) {
        const batch = await joined(stage, { batch: count(slots) }, short(stage));
        await step(batch);
        const { of } = await untilEnd(batch);
        for (const [slot, stepType] of of("step_type").entries()) {
          const hasEnded = of("terminated")[slot] === 1 || of("truncated")[slot] === 1;
          expectThat(
            hasEnded === (stepType === last),
            "step_type 2 in the slots that are terminated or truncated, and in no others",
            `step_type ${stepType} in slot ${slot}`,
          );
        }
        const ended = of("step_type").map((type) => type === last);
        const next = await step(batch);
        expectThat(next.state === "RUNNING", "RUNNING", next.state);
        for (const [slot, stepType] of next.of("step_type").entries()) {
          expectThat(
            ended[slot] !== true || stepType === first,
            `step_type 0 in slot ${slot}, which had ended`,
            `${stepType}`,
          );
        }
      },
    },
    "same-step": {
      title: "In mode same-step, a slot starts its next sequence in the step of its end.",
      notFor: needsAll(needsBatches, needsShortSequence),
      async run(stage) {
        const settings = { batch: count(slots), autoreset: "same-step" };
        const batch = await joined(stage, settings, short(stage));
        const finals = batch.observations.entries.filter(({ name }) => name.startsWith("final."));
        expectThat(finals.length > 0, "observations under final.", "none");
        await step(batch);
        const { of } = await untilEnd(batch);
        const slot = of("step_type").indexOf(last);
        const next = await step(batch);
        const length = next.of("episode_length")[slot];
        expectThat(length === 1, `episode_length 1 in slot ${slot} a step later`, `${length}`);
      },
    },
    disabled: {
      title: "In mode disabled, a step of an ended slot is an error; reset_mask restarts the slot.",
      notFor: needsAll(needsBatches, needsShortSequence),
      async run(stage) {
        const settings = { batch: count(slots), autoreset: "disabled" };
        const batch = await joined(stage, settings, short(stage));
        await step(batch);
        const { of } = await untilEnd(batch);
        await batch.refused(requests.step([], []), "a step of a slot that has ended");
        const ended = of("step_type").map((type) => (type === last ? 1 : 0));
        const begun = await step(batch, { reset_mask: ended });
        const slot = ended.indexOf(1);
        const stepType = begun.of("step_type")[slot];
        expectThat(stepType === first, `step_type 0 in slot ${slot}`, `${stepType}`);
      },
    },
    "reset-mask": {
      title:
        "A step with only reset_mask restarts the masked slots and leaves the others unchanged.",
      notFor: needsBatches,
      async run(stage) {
        const batch = await joined(stage, { batch: count(slots) });
        await step(batch);
        await step(batch);
        const before = (await step(batch)).of("episode_length");
        // An asymmetric mask, so that a server that confuses slots fails.
        const after = await step(batch, { reset_mask: [1, 0, 0] });
        const lengths = after.of("episode_length");
        const expected = [0, before[1], before[2]];
        expectThat(`${lengths}` === `${expected}`, `episode_length ${expected}`, `${lengths}`);
        expectThat(after.of("step_type")[0] === first, "step_type 0 in slot 0", "another");
      },
    },
  }),
  ...checksOf(71, section, {
    "same-seed": {
      title: "The same seed gives the same batch.",
      notFor: needsBatches,
      async run(stage) {
        const world = await stage.world();
        const seen: string[] = [];
        for (let i = 0; i < 2; i++) {
          const batch = await stage.connect();
          await batch.join(world, seeded(stage, { batch: count(slots) }, 7n));
          seen.push(textOf((await step(batch)).observations));
        }
        expectThat(seen[0] === seen[1], "the same first observations", "others");
      },
    },
    "as-alone": {
      title: "A slot plays like a single environment with the same seed.",
      notFor: needsBatches,
      async run(stage) {
        const world = await stage.world();
        const batch = await stage.connect();
        await batch.join(world, seeded(stage, { batch: count(slots) }, 7n));
        const many = await step(batch);
        for (let slot = 0; slot < slots; slot++) {
          const alone = await stage.connect();
          await alone.join(world, seeded(stage, {}, 7n + BigInt(slot)));
          const one = await step(alone);
          for (const { name } of alone.observations.entries) {
            const own = one.of(name);
            const row = many.of(name).slice(slot * own.length, (slot + 1) * own.length);
            expectThat(`${row}` === `${own}`, `"${name}" of slot ${slot} to be ${own}`, `${row}`);
          }
          await alone.leave();
        }
      },
    },
  }),
  ...checksOf(73, section, {
    "leading-dimension": {
      title:
        "With several seats, every spec has a leading dimension, and a step has one row for each seat.",
      notFor: needsSeats,
      async run(stage) {
        const world = await stage.world();
        const alone = await stage.connect();
        await alone.join(world, { ...stage.config.join });
        await alone.leave();
        const rows = await stage.connect();
        await rows.join(world, { ...stage.config.join, seats: count(2) });
        hasLeading(alone.actions, rows.actions, 2, { begin_mask: "bool" });
        hasLeading(alone.observations, rows.observations, 2, rowObservations);
        await stage.accompany(world, 2);
        const { state, of } = await step(rows);
        expectThat(state === "RUNNING", "RUNNING", state);
        expectAll(of("step_type"), first, "step_type 0 in every row");
      },
    },
    "begin-mask": {
      title: "A step where no row is in a sequence starts all of them, regardless of begin_mask.",
      notFor: needsAll(needsSeats, needsShortSequence),
      async run(stage) {
        const world = await stage.world(short(stage));
        const rows = await stage.connect();
        await rows.join(world, { ...stage.config.join, seats: count(2) });
        await stage.accompany(world, 2);
        const none = { begin_mask: [0, 0] };
        for (let i = 0; i < 2; i++) {
          const { of } = await step(rows, none);
          expectAll(of("step_type"), first, "step_type 0 in every row");
          await untilAllEnd(rows, none);
        }
      },
    },
  }),
];

const count = (value: number) => pack(value, { dtype: "int32" });

const short = ({ config }: Stage): Settings => config.shortSequence?.create ?? {};

function seeded({ config }: Stage, settings: Settings, seed: bigint): Settings {
  return { ...config.join, ...settings, seed: pack(seed, { dtype: "uint64" }) };
}

async function joined(stage: Stage, settings: Settings, create?: Settings) {
  const agent = await stage.connect();
  await agent.join(await stage.world(create), { ...stage.config.join, ...settings });
  return agent;
}

async function both(stage: Stage, settings: Settings) {
  const alone = await joined(stage, settings);
  const batch = await joined(stage, { ...settings, batch: count(slots) });
  return { alone, batch };
}

/** @throws Mismatch unless specs have a leading dimension and the further observations exist with their dtypes. */
function hasLeading(
  own: SpecTable,
  received: SpecTable,
  size: number,
  more: Readonly<Record<string, string>>,
): void {
  const expected = [
    ...own.entries.map(({ name, spec }) => [name, `${spec.dtype} [${[size, ...spec.shape]}]`]),
    ...Object.entries(more).map(([name, dtype]) => [name, `${dtype} [${size}]`]),
  ];
  for (const [name = "", wanted = ""] of expected) {
    const spec = received.byName.get(name)?.spec;
    const is = spec === undefined ? "nothing" : `${spec.dtype} [${spec.shape}]`;
    expectThat(is === wanted, `"${name}" to be ${wanted}`, is);
  }
}

/** Masks by the names of their actions. */
type Masks = Readonly<Record<string, readonly number[]>>;

/** Steps with all observations, and with masks as the only actions. */
async function step(agent: AgentConnection, masks: Masks = {}) {
  const { entries, byName } = agent.observations;
  const actions = Object.entries(masks).map(([name, mask]): UidTensor => {
    const uid = agent.actions.byName.get(name)?.uid ?? 0;
    return { uid, tensor: tensor("bool", [mask.length], Uint8Array.from(mask)) };
  });
  const uids = entries.map(({ uid }) => uid);
  const { state, observations } = await agent.step(uids, actions);
  const byUid = new Map(observations.map(({ uid, tensor: of }) => [uid, of]));
  /** Elements by name; 64-bit integers as numbers. */
  const of = (name: string): unknown[] => {
    const received = byUid.get(byName.get(name)?.uid ?? 0);
    expectThat(received !== undefined, `the observation "${name}"`, "none");
    const elements = Array.from<unknown>((unpack(received) as Tensor).data);
    return elements.map((element) => (typeof element === "bigint" ? Number(element) : element));
  };
  return { state, observations, of };
}

/** Steps until a slot has ended. */
async function untilEnd(batch: AgentConnection) {
  for (let steps = 0; steps < mostSteps; steps++) {
    const stepped = await step(batch);
    if (stepped.of("step_type").includes(last)) {
      return stepped;
    }
  }
  throw new Mismatch(`the end of a sequence within ${mostSteps} steps`, "none");
}

/** Steps until every row has ended once. */
async function untilAllEnd(rows: AgentConnection, masks: Masks): Promise<void> {
  const ended = new Set<number>();
  for (let steps = 0; steps < mostSteps; steps++) {
    const { of } = await step(rows, masks);
    const truncated = of("truncated");
    for (const [row, terminated] of of("terminated").entries()) {
      if (terminated === 1 || truncated[row] === 1) {
        ended.add(row);
      }
    }
    if (ended.size === truncated.length) {
      return;
    }
  }
  throw new Mismatch(`the end of every row within ${mostSteps} steps`, `${ended.size} ends`);
}

function expectAll(values: readonly unknown[], value: unknown, expected: string): void {
  expectThat(
    values.every((each) => each === value),
    expected,
    `${values}`,
  );
}

function textOf(observations: readonly UidTensor[]): string {
  return observations
    .map(({ uid, tensor: { data } }) => `${uid}: ${Array.from<unknown>(data).join()}`)
    .join("; ");
}
