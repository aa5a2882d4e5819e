// SPDX-License-Identifier: Apache-2.0

/** What is wrong with a tensor or a spec. */
export type TensorErrorReason =
  | "dtype"
  | "shape"
  | "bounds"
  | "value"
  | "ragged"
  | "limit"
  | "name"
  | "spec"
  | "malformed";

/** The facts of a TensorError. */
export interface TensorErrorFacts {
  readonly reason: TensorErrorReason;
  /** Name of the spec, setting or property, where there is one. */
  readonly name?: string | undefined;
  /** What would have been right. */
  readonly expected: string;
  /** What came instead. */
  readonly received: string;
  /** What to do about it. */
  readonly remedy?: string | undefined;
}

/**
 * A tensor or a spec that cannot be used, or bytes that are none.
 *
 * The message says what was expected, what came and what to do.
 */
export class TensorError extends Error {
  override readonly name = "TensorError";
  readonly reason: TensorErrorReason;
  /** Name of the spec, setting or property that the tensor was for, where there is one. */
  readonly specName: string | undefined;
  readonly expected: string;
  readonly received: string;
  readonly remedy: string | undefined;

  constructor(facts: TensorErrorFacts, options?: ErrorOptions) {
    const subject = facts.name === undefined ? "" : `"${facts.name}": `;
    const remedy = facts.remedy === undefined ? "" : `; ${facts.remedy}`;
    super(`${subject}expected ${facts.expected}, received ${facts.received}${remedy}`, options);
    this.reason = facts.reason;
    this.specName = facts.name;
    this.expected = facts.expected;
    this.received = facts.received;
    this.remedy = facts.remedy;
  }

  /** The same error, said of the spec, setting or property `name`. */
  named(name: string): TensorError {
    return new TensorError({ ...this.facts(), name }, { cause: this.cause });
  }

  private facts(): TensorErrorFacts {
    const { reason, specName, expected, received, remedy } = this;
    return { reason, name: specName, expected, received, remedy };
  }
}

/** Whether a value is a TensorError, of this copy of the package or of another. */
export function isTensorError(value: unknown): value is TensorError {
  return value instanceof Error && value.name === "TensorError" && "reason" in value;
}
