// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/**
 * Limits the time of an answer. When the time is over, reads the sockets first, because the answer may have arrived while
 * this process stood still.
 *
 * @param onLate Called with the error if there is no answer.
 * @throws Error if there is no answer within `ms`.
 */
export async function inTime<T>(
  answer: Promise<T>,
  ms: number,
  time: TimeSource,
  onLate: (late: Error) => void = () => {},
): Promise<T> {
  let hasSettled = false;
  let cancel = (): void => {};
  const late = new Promise<never>((_resolve, reject) => {
    cancel = time.after(ms, () => {
      // The event loop reads sockets between two immediates.
      setImmediate(() =>
        setImmediate(() => {
          if (hasSettled) {
            return;
          }
          const error = new Error(`no answer within ${ms} ms`);
          reject(error);
          onLate(error);
        }),
      );
    });
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    hasSettled = true;
    cancel();
  }
}
