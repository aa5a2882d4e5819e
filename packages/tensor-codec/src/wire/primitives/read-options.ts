// SPDX-License-Identifier: Apache-2.0
import {
  defaultMaxDimensions,
  defaultMaxElements,
  defaultMaxEntries,
  defaultMaxMessageWork,
  defaultMaxStringBytes,
  type Limits,
} from "../../errors/limits.ts";

/** Limits and options of the readers of tensors. */
export interface ReadOptions {
  readonly maxElements: number;
  readonly maxStringBytes: number;
  readonly maxEntries: number;
  readonly maxDimensions: number;
  readonly maxMessageWork: number;
  /** Copies data that would otherwise be a view of the source. */
  readonly copy: boolean;
}

/** Options of a codec that reads. */
export interface CodecOptions extends Limits {
  /** Returns copies of tensors, instead of views of the bytes that are read. Default false. */
  readonly copy?: boolean | undefined;
  /**
   * Returns borrowed scalars: their tensors are valid until the next message, which may reuse their memory. This saves
   * an allocation per scalar. `ownScalars` copies them. Default false.
   */
  readonly borrowScalars?: boolean | undefined;
}

/** Applies the defaults of the limits. */
export function readOptionsOf(options: CodecOptions): ReadOptions {
  return {
    maxElements: options.maxElements ?? defaultMaxElements,
    maxStringBytes: options.maxStringBytes ?? defaultMaxStringBytes,
    maxEntries: options.maxEntries ?? defaultMaxEntries,
    maxDimensions: options.maxDimensions ?? defaultMaxDimensions,
    maxMessageWork: options.maxMessageWork ?? defaultMaxMessageWork,
    copy: options.copy ?? false,
  };
}
