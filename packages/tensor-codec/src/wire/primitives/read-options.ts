// SPDX-License-Identifier: Apache-2.0
import {
  DEFAULT_MAX_ELEMENTS,
  DEFAULT_MAX_ENTRIES,
  DEFAULT_MAX_STRING_BYTES,
  type Limits,
} from "../../errors/limits.ts";

/** What the readers of tensors keep to. */
export interface ReadOptions {
  readonly maxElements: number;
  readonly maxStringBytes: number;
  readonly maxEntries: number;
  /** Copies what would be a view of the source. */
  readonly copy: boolean;
}

/** How a codec reads. */
export interface CodecOptions extends Limits {
  /** Copies tensors out of the bytes that are read, instead of views of them. Default false. */
  readonly copy?: boolean | undefined;
  /**
   * Lends the tensors of scalars: those of a later step may be the same ones, with other
   * elements, so that they cost no memory. For whoever reads them before the next message. Default false.
   */
  readonly lendScalars?: boolean | undefined;
}

/** Limits and defaults as the readers want them. */
export function readOptionsOf(options: CodecOptions): ReadOptions {
  return {
    maxElements: options.maxElements ?? DEFAULT_MAX_ELEMENTS,
    maxStringBytes: options.maxStringBytes ?? DEFAULT_MAX_STRING_BYTES,
    maxEntries: options.maxEntries ?? DEFAULT_MAX_ENTRIES,
    copy: options.copy ?? false,
  };
}
