// SPDX-License-Identifier: Apache-2.0

/** Result of a table. */
export interface TableResult {
  readonly name: string;
  readonly title: string;
  /** For the terminal. */
  readonly text: string;
  /** For the JSON on disk. */
  readonly data: unknown;
  readonly plots: readonly { readonly name: string; readonly svg: string }[];
  /** Number of missed bars. */
  readonly missed: number;
}
