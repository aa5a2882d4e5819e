// SPDX-License-Identifier: Apache-2.0

/** Failure of a check: the server violates the protocol. */
export class Mismatch extends Error {
  override readonly name = "Mismatch";
  readonly expected: string;
  readonly received: string;

  constructor(expected: string, received: string) {
    super(`expected ${expected}, received ${received}`);
    this.expected = expected;
    this.received = received;
  }
}

/** Throws a Mismatch unless a condition holds. */
export function expectThat(
  condition: boolean,
  expected: string,
  received: string | (() => string),
): asserts condition {
  if (condition) {
    return;
  }
  throw new Mismatch(expected, typeof received === "string" ? received : received());
}
