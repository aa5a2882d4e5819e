// SPDX-License-Identifier: Apache-2.0

/** Where reading a step came by what may differ in the next one of the same layout. */
export class LayoutNotes {
  /** Pairs of positions, a start and an end: the `Tensor.*Array` of each entry, in their order. */
  readonly arrays: number[] = [];
  /** Where the state is, when it takes one byte; -1 without. */
  stateAt = -1;
  /** Whether each entry's tensor comes from one range of bytes: nothing was merged, replaced or without a payload. */
  regular = true;

  clear(): void {
    this.arrays.length = 0;
    this.stateAt = -1;
    this.regular = true;
  }
}
