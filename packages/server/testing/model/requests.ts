// SPDX-License-Identifier: Apache-2.0
import type { WorldModel } from "./world-model.ts";

/** The observations of the world under test, and what they are. */
export const observationNames = ["total", "tick", "sequence", "row", "reward"] as const;

/** What an agent may see, by name. */
export type ObservationName = (typeof observationNames)[number];

/** A world as a request names it: one that was created, or one that never was. */
export type NamedWorld = WorldModel | undefined;

/** Create settings of the world under test. */
export interface CreateSettings {
  readonly length: number;
  readonly cut: boolean;
  readonly start: number;
  readonly min_agents: number;
  readonly max_agents: number;
}

/** What a step does: an amount to add, nothing, or something that is wrong. */
export type StepAction = number | "none" | "out-of-range" | "unknown";

/** A request of one connection, as right or wrong as it may be. */
export type Request =
  | { readonly kind: "create"; readonly settings: CreateSettings | "bad" }
  | { readonly kind: "join"; readonly world: NamedWorld; readonly width: number | "bad" }
  | {
      readonly kind: "step";
      readonly action: StepAction;
      readonly sleep: number;
      readonly requested: readonly ObservationName[] | "unknown";
    }
  | { readonly kind: "reset"; readonly width: number | "none" | "bad" }
  | {
      readonly kind: "resetWorld";
      readonly world: NamedWorld;
      readonly start: number | "none" | "bad";
    }
  | { readonly kind: "leave" }
  | { readonly kind: "destroy"; readonly world: NamedWorld }
  | { readonly kind: "nothing" };

/** The codes of google.rpc.Status that the model speaks of. */
export const codes = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  internal: 13,
} as const;

/** What a request must be answered with. */
export type Answer =
  | { readonly kind: "error"; readonly code: number }
  | { readonly kind: "createWorld" | "resetWorld" | "leaveWorld" | "destroyWorld" }
  | { readonly kind: "joinWorld" | "reset"; readonly width: number }
  | {
      readonly kind: "step";
      readonly state: "RUNNING" | "TERMINATED" | "INTERRUPTED";
      readonly observations: Readonly<Partial<Record<ObservationName, number | readonly number[]>>>;
    };
