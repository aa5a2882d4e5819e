// SPDX-License-Identifier: Apache-2.0

/** Delays and number of attempts. */
export interface BackoffOptions {
  /** Number of failed attempts in a row after which no further attempt is made. Default 5. */
  readonly maxAttempts?: number | undefined;
  /**
   * Upper bound of the first delay, in ms; it doubles with each further attempt. Default 100.
   */
  readonly initialMs?: number | undefined;
  /** Upper bound of every delay, in ms. Default 10,000. */
  readonly maxMs?: number | undefined;
  /** Source of jitter, uniform in [0, 1). Default Math.random. */
  readonly random?: (() => number) | undefined;
}

/**
 * Returns the delay before an attempt, in ms. It is 0 before attempt 1. Before each further attempt, it is a random
 * delay from half of a bound to the whole bound. The bound doubles with each attempt. So if clients lose their
 * connections at the same time, they reconnect at different times.
 */
export function backoffMs(attempt: number, options: BackoffOptions = {}): number {
  if (attempt <= 1) {
    return 0;
  }
  const { initialMs = 100, maxMs = 10_000, random = Math.random } = options;
  const most = Math.min(maxMs, initialMs * 2 ** (attempt - 2));
  return most * (0.5 + random() / 2);
}
