// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { pause, type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../events.ts";
import type { AuthorizeCall } from "./authorize.ts";

/** Options of `reportedAuthorize`. */
export interface ReportedAuthorizeOptions {
  readonly authorizeMs: number;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/**
 * Wraps `authorize` with a time limit. Returns undefined if it throws, and rejects with DEADLINE_EXCEEDED if it takes
 * too long. An event reports both.
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
      const answer = authorize(peer);
      if (!(answer instanceof Promise)) {
        return answer;
      }
      const late = pause(time, authorizeMs, over.signal).then((): "late" => "late");
      const first = await Promise.race([answer, late]);
      if (first !== "late") {
        return first;
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
