// SPDX-License-Identifier: Apache-2.0
import { TensorError } from "./tensor-error.ts";

/** Limits on what decoding a message may cost. */
export interface Limits {
  /** Elements of one tensor, after a broadcast too. Default 2^24. */
  readonly maxElements?: number | undefined;
  /** Bytes of one string, in UTF-8. Default 2^24. */
  readonly maxStringBytes?: number | undefined;
  /**
   * Entries of one step, UIDs that it requests, and elements of a PROTO tensor; in any other message, the
   * entries of all its maps and lists together, where sixteen numbers count as one. Default 2^16.
   */
  readonly maxEntries?: number | undefined;
}

/** The default of `maxElements`: 2^24, 64 MiB of float32. */
export const defaultMaxElements: number = 2 ** 24;

/** The default of `maxStringBytes`: 2^24, 16 MiB. */
export const defaultMaxStringBytes: number = 2 ** 24;

/** The default of `maxEntries`: 2^16, more actions or observations than any world has. */
export const defaultMaxEntries: number = 2 ** 16;

/** Makes the error of a tensor with more elements than `maxElements`, before anything is allocated. */
export function tooManyElements(count: number, maxElements: number, name?: string): TensorError {
  return new TensorError({
    reason: "limit",
    name,
    expected: `at most ${maxElements} elements (maxElements)`,
    received: `${count}`,
    remedy: "send smaller tensors or raise maxElements",
  });
}

/** Makes the error of a message with more entries, requested UIDs or PROTO elements than `maxEntries`. */
export function tooManyEntries(maxEntries: number): TensorError {
  return new TensorError({
    reason: "limit",
    expected: `at most ${maxEntries} entries in a message (maxEntries)`,
    received: "more",
    remedy: "send fewer or raise maxEntries",
  });
}

/** Makes the error of a message other than a step with more numbers or fields than `maxEntries` allows. */
export function tooManyFields(maxFields: number): TensorError {
  return new TensorError({
    reason: "limit",
    expected: `at most ${maxFields} numbers and fields in a message other than a step (16 for each of maxEntries)`,
    received: "more",
    remedy: "send less or raise maxEntries",
  });
}
