// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import type { Mishap } from "../patient.ts";
import type { ClockOptions } from "./clock-models.ts";
import type { Policies } from "./policies.ts";
import {
  type CreateSettings,
  type ObservationName,
  observationNames,
  type Request,
} from "./requests.ts";

type WithPlace<R> = R extends { readonly world: unknown }
  ? Omit<R, "world"> & { readonly world: number }
  : R;

/**
 * A request that refers to its world by an index of the created ones; an index past the last refers
 * to no world.
 */
export type Draft = WithPlace<Request>;

/** One thing that happens to a server. */
export type Operation =
  | { readonly do: "send"; readonly connection: number; readonly requests: readonly Draft[] }
  | { readonly do: "drop" | "half-close"; readonly connection: number }
  | { readonly do: "pass"; readonly ms: number };

/** A run of a server: the options of its worlds, and the operations. */
export interface Scenario {
  readonly policies: Policies;
  readonly settings: CreateSettings;
  /** Agents that join the first world before the operations. */
  readonly agents: number;
  readonly operations: readonly Operation[];
  /** Failure of the author's code, if any. */
  readonly mishap?: Mishap;
}

/** Number of connections at a time. */
export const connectionCount = 4;

/** Keys of seats; the agents that join before the operations have one each. */
export const seatKeys = ["key-of-the-first-seat", "key-of-the-second-seat"] as const;

const settings: fc.Arbitrary<CreateSettings> = fc.record({
  length: fc.integer({ min: 1, max: 4 }),
  cut: fc.boolean(),
  start: fc.integer({ min: 0, max: 9 }),
  min_agents: fc.constantFrom(1, 1, 1, 2, 3),
  max_agents: fc.constantFrom(2, 3, 8, 8),
});

const requested: fc.Arbitrary<readonly ObservationName[] | "unknown"> = fc.oneof(
  { weight: 6, arbitrary: fc.constant(observationNames) },
  { weight: 3, arbitrary: fc.constantFrom<ObservationName[][]>([], ["reward"], ["row", "total"]) },
  { weight: 1, arbitrary: fc.constant("unknown" as const) },
);

const step: fc.Arbitrary<Draft> = fc.record({
  kind: fc.constant("step" as const),
  action: fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 1, max: 9 }) },
    { weight: 1, arbitrary: fc.constantFrom("none" as const, 100) },
    { weight: 2, arbitrary: fc.constant(366) },
    { weight: 1, arbitrary: fc.constantFrom("out-of-range" as const, "unknown" as const) },
  ),
  sleep: fc.constantFrom(0, 0, 1, 2, 3),
  requested,
});

const place = fc.constantFrom(0, 0, 0, 1, 2);

const draft: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 24, arbitrary: step },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("join" as const),
      world: place,
      width: fc.constantFrom(2, 2, 2, 3, "bad" as const),
      key: fc.constantFrom(...seatKeys, undefined),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("reset" as const),
      width: fc.constantFrom("none" as const, "none" as const, 1, 4, "bad" as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("resetWorld" as const),
      world: place,
      start: fc.constantFrom("none" as const, 5, 7, "bad" as const),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "leave" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("destroy" as const), world: place }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("create" as const),
      settings: fc.oneof(settings, fc.constant("bad" as const)),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "nothing" as const }) },
);

const connection = fc.nat({ max: connectionCount - 1 });

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.record({
      do: fc.constant("send" as const),
      connection,
      requests: fc.oneof(
        { weight: 4, arbitrary: fc.tuple(draft) },
        { weight: 1, arbitrary: fc.array(draft, { minLength: 2, maxLength: 4 }) },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom("drop" as const, "half-close" as const),
      connection,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(1, 40, 71, 71, 150, 1009, 3023),
    }),
  },
);

const policies = fc.constantFrom(
  "wait" as const,
  "default-action" as const,
  "repeat-last" as const,
  "leave" as const,
);

/** The options that a clock of a kind may have. */
function clockOptions(kind: ClockOptions["kind"]): fc.Arbitrary<ClockOptions> {
  switch (kind) {
    case "freeRunning":
      return fc.constant({ kind });
    case "realtime":
      return fc.record({
        kind: fc.constant(kind),
        periodMs: fc.constant(50),
        newest: fc.boolean(),
        policy: fc.constantFrom("repeat-last" as const, "default-action" as const),
      });
    case "lockstep":
    case "turns":
    case "wakeUp":
      return fc.record({
        kind: fc.constant(kind),
        deadlineMs: fc.constantFrom(undefined, 71, 71),
        policy: policies,
      });
  }
}

/** Scenarios on a clock of some kind. */
export function scenarios(kind: ClockOptions["kind"], maxLength = 60): fc.Arbitrary<Scenario> {
  return fc.record({
    policies: fc.record({
      clock: clockOptions(kind),
      onLeave: fc.constantFrom("continue" as const, "block" as const, "terminate" as const),
      onDrop: fc.option(
        fc.record({
          holdMs: fc.constant(503),
          policy: fc.constantFrom("continue" as const, "block" as const, "terminate" as const),
        }),
        { nil: undefined },
      ),
      onReset: fc.constantFrom("respawn" as const, "wait" as const),
      lateEntry: fc.constantFrom("now" as const, "next-sequence" as const),
      onDestroy: fc.constantFrom("refuse" as const, "drain" as const, "force" as const),
      resetDeadlineMs: fc.constant(1009),
      drainDeadlineMs: fc.constant(3023),
    }),
    settings,
    agents: fc.nat({ max: connectionCount }),
    operations: fc.array(operation, { maxLength, size: "max" }),
  });
}

/** Failures of the author's code. */
export const mishaps: fc.Arbitrary<Mishap> = fc.record({
  call: fc.constantFrom("create" as const, "join" as const, "start" as const, "step" as const),
  number: fc.integer({ min: 1, max: 6 }),
  fate: fc.constantFrom("throws" as const, "rejects" as const, "hangs" as const),
});
