// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { maxTimeoutMs } from "../internal/time/time-source.ts";
import type { Address } from "../stream/address.ts";
import type { ConnectionOptions } from "./open-options.ts";

/** Ends a connection attempt; only the first call has an effect. */
export interface Attempt<Connection> {
  succeed(connection: Connection): void;
  fail(error: DmEnvRpcError): void;
}

/**
 * Connects within `connectTimeoutMs`, unless the signal aborts first.
 *
 * @param begin Starts the attempt. Returns a function that undoes the attempt, which is called when the
 *   attempt fails.
 * @throws DmEnvRpcError DEADLINE_EXCEEDED or CANCELLED, or the error with which the attempt failed.
 */
export function connecting<Connection>(
  address: Address,
  { connectTimeoutMs = 10_000, signal }: ConnectionOptions,
  begin: (attempt: Attempt<Connection>) => () => void,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const aborted = (): DmEnvRpcError =>
      new DmEnvRpcError("CANCELLED", `connecting to ${address.authority} was aborted`, {
        origin: "client",
        cause: signal?.reason,
      });
    if (signal?.aborted) {
      reject(aborted());
      return;
    }
    let isOver = false;
    const settle = (conclude: () => void): void => {
      if (isOver) {
        return;
      }
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      conclude();
    };
    const fail = (error: DmEnvRpcError): void =>
      settle(() => {
        undo();
        reject(error);
      });
    const onAbort = (): void => fail(aborted());
    const undo = begin({ succeed: (connection) => settle(() => resolve(connection)), fail });
    signal?.addEventListener("abort", onAbort, { once: true });
    const timer = setTimeout(
      () =>
        fail(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `${address.authority} did not answer within ${connectTimeoutMs} ms; check the address, or raise connectTimeoutMs`,
            { origin: "connection" },
          ),
        ),
      Math.min(connectTimeoutMs, maxTimeoutMs),
    );
  });
}
