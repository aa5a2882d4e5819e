// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import type { SlotFailures } from "../definition/batch/request.ts";

/**
 * Reason why a world is gone: it was destroyed, it failed, or its `create` refused the settings.
 */
export type WorldEnd = "destroyed" | "failed" | "refused";

/** An event of one world. */
export type WorldEvent =
  | { readonly kind: "agent-joined"; readonly agent: AgentId }
  | {
      readonly kind: "agent-left";
      readonly agent: AgentId;
      /** Undefined if the agent asked to leave or its stream ended. */
      readonly reason: DmEnvRpcError | undefined;
    }
  | { readonly kind: "sequence-started" }
  | { readonly kind: "deadline-missed"; readonly agent: AgentId }
  | { readonly kind: "ticks-missed"; readonly count: number }
  | ({ readonly kind: "slots-failed"; readonly agent: AgentId } & SlotFailures)
  /** The last agent left. */
  | { readonly kind: "emptied" }
  /** The author's code failed; `gone` follows, unless the world was gone already. */
  | { readonly kind: "failed"; readonly error: DmEnvRpcError }
  | { readonly kind: "gone"; readonly end: WorldEnd };

/** Author functions that may return a promise. */
export type LimitedCall = "create" | "join" | "start" | "step" | "properties";

/** A function that cancels a timer. */
export type Cancel = () => void;

/**
 * The engine's author calls, timers and events. It serializes transitions and has no notion of seats or sequences.
 *
 * Replies and `onLeft` are not part of it, because they belong to a request and a seat; nor are the
 * author's `status`, `observe` and `destroy`, because no transition waits for a promise of theirs.
 * The engine and its parts call these directly.
 */
export interface Outside {
  /**
   * Calls an author's function that may return a promise, within the limit of its kind. No other
   * transition runs until the promise settles.
   *
   * @param then Continues the transition with the result.
   * @param refused Receives a DmEnvRpcError or a TensorError that the function throws; without it
   *   they are faults.
   * @param name Name of the function in errors. Default: `kind`.
   * @returns True if the call is over, false while its promise is pending.
   * @throws WorldFault if the function throws; a promise that rejects or is overdue is reported as
   *   the world's fault.
   */
  call<T>(
    kind: LimitedCall,
    run: () => Awaitable<T>,
    then: (value: T) => void,
    refused?: (error: Error) => void,
    name?: string,
  ): boolean;
  /**
   * Calls an author's function that must be synchronous.
   *
   * @throws WorldFault if it throws or returns a promise.
   */
  sync<T>(name: string, run: () => T): T;
  /**
   * Calls an author's function that may refuse by throwing a DmEnvRpcError or a TensorError.
   *
   * @returns The refusal, if any.
   * @throws WorldFault for any other error, and for a promise.
   */
  refusal(name: string, run: () => unknown): Error | undefined;
  /** True if this turn of the event loop has taken so long that the rest of a long transition waits for a later turn. */
  isTurnOver(): boolean;
  /**
   * Calls `part` in later turns of the event loop until it returns true; other worlds and streams run meanwhile. No
   * other transition runs until then. An error that `part` throws is the world's fault.
   */
  inLaterTurns(part: () => boolean): void;
  /** Abandons the pending author call, if any. */
  stop(): void;
  /** Milliseconds since some fixed moment. */
  now(): number;
  /** Runs a transition `delayMs` from now. */
  after(delayMs: number, transition: () => void): Cancel;
  /** Runs a transition in a later turn of the event loop; other worlds and streams run first. */
  rest(transition: () => void): Cancel;
  /** Reports an event; it does not throw. */
  emit(event: WorldEvent): void;
}
