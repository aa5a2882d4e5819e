// SPDX-License-Identifier: Apache-2.0

/** What the readers of tensors keep to. */
export interface ReadOptions {
  readonly maxElements: number;
  readonly maxStringBytes: number;
  readonly maxEntries: number;
  /** Copies what would be a view of the source. */
  readonly copy: boolean;
}
