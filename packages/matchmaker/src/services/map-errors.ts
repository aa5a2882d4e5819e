// SPDX-License-Identifier: Apache-2.0
import type { Interceptor } from "@connectrpc/connect";
import { toConnectError } from "../errors.ts";

/** Maps errors of a service's methods and streams to Connect codes. */
export const mapErrorsToConnectCodes: Interceptor = (next) => async (request) => {
  try {
    const response = await next(request);
    if (!response.stream) {
      return response;
    }
    const { message } = response;
    return { ...response, message: mapStreamErrors(message) };
  } catch (error) {
    throw toConnectError(error);
  }
};

async function* mapStreamErrors<T>(messages: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* messages;
  } catch (error) {
    throw toConnectError(error);
  }
}
