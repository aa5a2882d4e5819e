// SPDX-License-Identifier: Apache-2.0
import type { Interceptor } from "@connectrpc/connect";
import { toConnectError } from "../errors.ts";

/** Gives every error of a service the code that it deserves. */
export const honestCodes: Interceptor = (next) => async (request) => {
  try {
    const response = await next(request);
    if (!response.stream) return response;
    const { message } = response;
    return { ...response, message: honestly(message) };
  } catch (error) {
    throw toConnectError(error);
  }
};

async function* honestly<T>(messages: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* messages;
  } catch (error) {
    throw toConnectError(error);
  }
}
