// SPDX-License-Identifier: Apache-2.0

/**
 * Yields the messages of a stream. If the stream fails, throws the error that `mapped` returns instead of the stream's own.
 */
export async function* mapStreamErrors<T>(
  messages: AsyncIterable<T>,
  mapped: (error: unknown) => unknown,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* messages;
  } catch (error) {
    throw mapped(error);
  }
}
