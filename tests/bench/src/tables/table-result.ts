// SPDX-License-Identifier: Apache-2.0

/** What a table came to. */
export interface TableResult {
  readonly name: string;
  readonly title: string;
  /** For the terminal. */
  readonly text: string;
  /** For the JSON on disk. */
  readonly data: unknown;
  readonly plots: readonly { readonly name: string; readonly svg: string }[];
  /** How many of its bars were missed. */
  readonly missed: number;
}
