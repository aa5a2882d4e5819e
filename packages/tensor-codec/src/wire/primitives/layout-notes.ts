// SPDX-License-Identifier: Apache-2.0

/** Positions, in a step that is being read, of the parts that differ between steps of one layout. */
export class LayoutNotes {
  /** Pairs of positions, a start and an end: the `Tensor.*Array` of each entry, in their order. */
  readonly arrays: number[] = [];
  /** Position of the state if it takes one byte, else -1. */
  stateAt = -1;
  /** True if each entry's tensor was read from one range of bytes: none was merged, replaced or without a payload. */
  regular = true;

  clear(): void {
    this.arrays.length = 0;
    this.stateAt = -1;
    this.regular = true;
  }
}
