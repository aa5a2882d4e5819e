// SPDX-License-Identifier: Apache-2.0
import type { MatchContext, MatchProposal } from "../match-function.ts";

/** Module and export of a function, as the worker's data. */
export interface WorkerFunctionSource {
  readonly module: string;
  readonly name: string;
}

/** Messages to the worker. */
export type ToWorker =
  | { readonly kind: "run"; readonly context: MatchContext }
  /** Requests further proposals after a pause. */
  | { readonly kind: "more" }
  /** Ends the run, whose further proposals are not needed. */
  | { readonly kind: "stop" };

/** A proposal, with the tickets of each team by their ids. */
export type ProposalOfIds = Omit<MatchProposal, "teams"> & {
  readonly teams: Readonly<Record<string, readonly string[]>>;
};

/** Messages from the worker. Each proposal is sent as soon as it is made. */
export type FromWorker =
  | { readonly kind: "proposal"; readonly proposal: ProposalOfIds }
  /** The worker waits for a request before it makes further proposals. */
  | { readonly kind: "pause" }
  /** The function has no more proposals, or has thrown an error. */
  | { readonly kind: "end"; readonly error?: Error };
