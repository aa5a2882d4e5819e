// SPDX-License-Identifier: Apache-2.0
import { TensorError } from "./tensor-error.ts";

/** Limits on the cost of decoding a message. */
export interface Limits {
  /** Elements of one tensor, also after a broadcast. Default 2^24. */
  readonly maxElements?: number | undefined;
  /** Bytes of one string, in UTF-8. Default 2^24. */
  readonly maxStringBytes?: number | undefined;
  /**
   * Entries (actions or observations) of a step; separately, the UIDs that the step requests, and the elements of each
   * PROTO tensor. In any other message, all entries of maps and lists together, without the numbers in lists of
   * numbers. A repeated key counts each time. Default 2^16.
   */
  readonly maxEntries?: number | undefined;
  /** Dimensions of one tensor or spec. Default 64, which is NumPy's limit. */
  readonly maxDimensions?: number | undefined;
  /**
   * Work of decoding one message. Each part of a message is counted before it is decoded. Default 2^18; 2^20 for the
   * messages of servers.
   *
   * - In every message, a field costs 1, or at most 4 if it holds a string, bytes or a message. The contents of bytes,
   *   such as INT8 and UINT8 tensors, are free.
   * - In a step, the packed integers of a tensor also cost 1 per 16 bytes; packed dimensions and requested UIDs cost 1
   *   each. Booleans of one byte each, floats and the contents of strings are free.
   * - In a step, a tensor with a single element for a larger shape costs 1 per 256 bytes of the elements after the
   *   broadcast.
   * - In any other message, packed numbers also cost 1 per two, and strings 1 per 32 bytes.
   */
  readonly maxMessageWork?: number | undefined;
}

/** The default of `maxElements`: 2^24, 64 MiB of float32. */
export const defaultMaxElements: number = 2 ** 24;

/** The default of `maxStringBytes`: 2^24, 16 MiB. */
export const defaultMaxStringBytes: number = 2 ** 24;

/** The default of `maxEntries`: 2^16, more actions or observations than any world has. */
export const defaultMaxEntries: number = 2 ** 16;

/** The default of `maxDimensions`: 64, which is NumPy's limit. */
export const defaultMaxDimensions: number = 64;

/** The default of `maxMessageWork`: 2^18 units, which take at most 33 ms (docs/decisions/0015-a-budget-of-work.md). */
export const defaultMaxMessageWork: number = 2 ** 18;

/**
 * The default of `maxMessageWork` for the messages of servers: 2^20. It is higher because a client that decodes keeps
 * only itself waiting.
 */
export const defaultMaxResponseWork: number = 2 ** 20;

/** Creates the error for a tensor with more elements than `maxElements`. */
export function tooManyElements(count: number, maxElements: number, name?: string): TensorError {
  return new TensorError({
    reason: "limit",
    name,
    expected: `at most ${maxElements} elements (limit: maxElements)`,
    received: `${count}`,
    remedy: "send smaller tensors or raise maxElements",
  });
}

/** Creates the error for a message with more entries, requested UIDs or PROTO elements than `maxEntries`. */
export function tooManyEntries(maxEntries: number): TensorError {
  return new TensorError({
    reason: "limit",
    expected: `at most ${maxEntries} entries in a message (limit: maxEntries)`,
    received: "more",
    remedy: "send fewer or raise maxEntries",
  });
}

/** Creates the error for a shape with more dimensions than `maxDimensions`. */
export function tooManyDimensions(maxDimensions: number): TensorError {
  return new TensorError({
    reason: "limit",
    expected: `at most ${maxDimensions} dimensions in a shape (limit: maxDimensions)`,
    received: "more",
    remedy: "send fewer or raise maxDimensions",
  });
}

/** Creates the error for a message that takes more work to decode than `maxMessageWork`. */
export function tooMuchWork(maxMessageWork: number): TensorError {
  return new TensorError({
    reason: "limit",
    expected: `a message that takes at most ${maxMessageWork} units of work to decode (limit: maxMessageWork)`,
    received: "more",
    remedy:
      "send fewer fields, pack numbers in one field or send them as UINT8 or floats, or raise maxMessageWork",
  });
}
