// SPDX-License-Identifier: Apache-2.0
import type { ConnectError, Interceptor } from "@connectrpc/connect";
import { toError } from "@dm-env-rpc/transport/internal";
import { isInternal, toConnectError } from "../errors/errors.ts";
import type { Emit } from "../model/events.ts";
import { mapStreamErrors } from "./stream-errors.ts";

/**
 * Maps errors of a service's methods and streams to Connect codes. Emits an event for each internal error, because the
 * caller does not receive its text.
 */
export function mapErrorsToConnectCodes(emit: Emit): Interceptor {
  return (next) => async (request) => {
    const mapped = (error: unknown): ConnectError => {
      // A call that its caller has aborted fails with the signal's reason.
      if (isInternal(error) && !request.signal.aborted) {
        emit({ kind: "call-failed", method: request.method.name, error: toError(error) });
      }
      return toConnectError(error);
    };
    try {
      const response = await next(request);
      return response.stream
        ? { ...response, message: mapStreamErrors(response.message, mapped) }
        : response;
    } catch (error) {
      throw mapped(error);
    }
  };
}
