// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { pause, type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../model/events.ts";
import { type AuthorizeCall, callerFrom } from "./authorize.ts";

/** Options of `reportedAuthorize`. */
export interface ReportedAuthorizeOptions {
  readonly authorizeMs: number;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/**
 * Wraps `authorize` with a time limit. Returns undefined if it throws or its answer is malformed, and rejects with
 * DEADLINE_EXCEEDED if it takes too long. An event reports each of these.
 */
export function reportedAuthorize(
  authorize: AuthorizeCall,
  { authorizeMs, time, emit }: ReportedAuthorizeOptions,
): AuthorizeCall {
  return async (peer) => {
    const failed = (error: unknown): void =>
      emit({ kind: "authorize-failed", address: peer.address, error: toError(error) });
    const over = new AbortController();
    try {
      const answer: unknown = authorize(peer);
      if (!isThenable(answer)) {
        return callerFrom(answer);
      }
      const late = pause(time, authorizeMs, over.signal).then(() => tooLate);
      const first = await Promise.race([answer, late]);
      if (first !== tooLate) {
        return callerFrom(first);
      }
    } catch (error) {
      failed(error);
      return undefined;
    } finally {
      over.abort();
    }
    const overdue = new DmEnvRpcError(
      "DEADLINE_EXCEEDED",
      `authorization did not finish within ${authorizeMs} ms; try again later (limit: authorizeMs)`,
    );
    failed(overdue);
    throw overdue;
  };
}

/** Wins the race against `authorize` if that takes too long. */
const tooLate = Symbol("too late");

/** Returns true for a promise, also for one of another library. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value;
}
