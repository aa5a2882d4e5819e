// SPDX-License-Identifier: Apache-2.0

/** Names of the observations of the world under test. */
export const observationNames = ["total", "tick", "sequence", "row", "reward"] as const;

/** Name of an observation. */
export type ObservationName = (typeof observationNames)[number];

/** A world as a request names it. */
export interface NamedWorld {
  /** As the server called it. */
  readonly name: string | undefined;
}

/** Create settings of the world under test. */
export interface CreateSettings {
  readonly length: number;
  readonly cut: boolean;
  readonly start: number;
  readonly min_agents: number;
  readonly max_agents: number;
}

/** Action of a step: an amount to add, nothing, or an invalid one. */
export type StepAction = number | "none" | "out-of-range" | "unknown";

/**
 * A request of one connection, valid or not; `world` is undefined for one that was never created.
 */
export type Request<W extends NamedWorld = NamedWorld> =
  | { readonly kind: "create"; readonly settings: CreateSettings | "bad" }
  | {
      readonly kind: "join";
      readonly world: W | undefined;
      readonly width: number | "bad";
      /** Key of the seat, which a join with the same key resumes. */
      readonly key: string | undefined;
    }
  | {
      readonly kind: "step";
      readonly action: StepAction;
      readonly sleep: number;
      readonly requested: readonly ObservationName[] | "unknown";
    }
  | { readonly kind: "reset"; readonly width: number | "none" | "bad" }
  | {
      readonly kind: "resetWorld";
      readonly world: W | undefined;
      readonly start: number | "none" | "bad";
    }
  | { readonly kind: "leave" }
  | { readonly kind: "destroy"; readonly world: W | undefined }
  | { readonly kind: "nothing" };

/** The codes of google.rpc.Status that the model uses. */
export const codes = {
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  internal: 13,
} as const;

/** Expected answer to a request. */
export type Answer =
  | { readonly kind: "error"; readonly code: number }
  | { readonly kind: "createWorld" | "resetWorld" | "leaveWorld" | "destroyWorld" }
  | { readonly kind: "joinWorld" | "reset"; readonly width: number }
  | {
      readonly kind: "step";
      readonly state: "RUNNING" | "TERMINATED" | "INTERRUPTED";
      readonly observations: Readonly<Partial<Record<ObservationName, number | readonly number[]>>>;
    };
