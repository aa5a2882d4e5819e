// SPDX-License-Identifier: Apache-2.0

/** The kind of a TensorError. */
export type TensorErrorReason =
  /** A value of another type, or a tensor of another dtype. */
  | "dtype"
  /** A shape or a number of elements that does not fit. */
  | "shape"
  /** An element out of the bounds of its spec. */
  | "bounds"
  /** A value of the right type that is not allowed, such as 300 for a uint8. */
  | "value"
  /** Nested arrays whose rows differ in length. */
  | "ragged"
  /** Input that exceeds a limit, which the error names. */
  | "limit"
  /** A name or UID that is unknown, missing, malformed or not unique. */
  | "name"
  /** A spec that is invalid, or differs from the expected one. */
  | "spec"
  /** Bytes that do not decode. */
  | "malformed";

/** The parts of a TensorError's message, and its reason. */
export interface TensorErrorFacts {
  readonly reason: TensorErrorReason;
  /** Name of the spec, setting or property, if there is one. */
  readonly name?: string | undefined;
  /** The valid value, as a noun phrase. */
  readonly expected: string;
  /** The value received instead. */
  readonly received: string;
  /** A way to fix it, as an imperative. */
  readonly remedy?: string | undefined;
}

/**
 * An unusable tensor or spec, or bytes that do not decode.
 *
 * The message reads `"<name>": expected …, received …; <remedy>`.
 */
export class TensorError extends Error {
  override readonly name = "TensorError";
  readonly reason: TensorErrorReason;
  /** Name of the spec, setting or property, if there is one. */
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

  /** Returns the same error about the spec, setting or property `name`. */
  named(name: string): TensorError {
    const { reason, expected, received, remedy } = this;
    return new TensorError({ reason, name, expected, received, remedy }, { cause: this.cause });
  }
}

/** Returns true for a TensorError of any copy of this package. */
export function isTensorError(value: unknown): value is TensorError {
  return value instanceof Error && value.name === "TensorError" && "reason" in value;
}
