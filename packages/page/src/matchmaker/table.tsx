// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";

interface TableProps {
  readonly caption: string;
  readonly heads: readonly string[];
  readonly rows: readonly Row[];
  /** Text that is shown instead of a table without rows. */
  readonly empty: string;
}

/** A row of a table; the first cell is its head. */
export interface Row {
  readonly key: string | number;
  readonly cells: readonly ComponentChildren[];
}

/** A table of texts. It scrolls sideways if it is too wide. */
export function Table({ caption, heads, rows, empty }: TableProps) {
  if (rows.length === 0) {
    return <p>{empty}</p>;
  }
  return (
    // The keyboard can reach the table, so that it can scroll it.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: only a focused element can be scrolled by keys.
    <section class="scrolls" aria-label={caption} tabIndex={0}>
      <table class="texts">
        <caption>{caption}</caption>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells: [head, ...cells] }) => (
            <tr key={key}>
              <th scope="row">{head}</th>
              {cells.map((cell, column) => (
                <td key={column}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Returns a text, or a dash instead of an empty text. */
export function orDash(text: string): string {
  return text === "" ? "–" : text;
}
