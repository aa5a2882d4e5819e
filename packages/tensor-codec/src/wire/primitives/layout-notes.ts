// SPDX-License-Identifier: Apache-2.0

/** Notes taken while a step is read: the positions of the parts that differ between steps of one layout. */
export class LayoutNotes {
  /** Start and end of each entry's `Tensor.*Array`, in the order of the entries. */
  readonly arrays: number[] = [];
  /** Position of the state if it takes one byte, else -1. */
  stateAt = -1;
  /** True while each part that was read was one range of bytes: none was merged, replaced or without a payload. */
  regular = true;

  clear(): void {
    this.arrays.length = 0;
    this.stateAt = -1;
    this.regular = true;
  }
}
