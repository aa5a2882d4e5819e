// SPDX-License-Identifier: Apache-2.0

/** Formats rows as columns, separated by two spaces. Later calls keep the column widths of the first call. */
export class Table {
  readonly #head: readonly string[];
  #widths: readonly number[] | undefined;

  constructor(head: readonly string[]) {
    this.#head = head;
  }

  /** Returns the text of rows; the first call also returns the head of the table. */
  text(rows: readonly (readonly string[])[]): string {
    const isFirst = this.#widths === undefined;
    const lines = isFirst ? [this.#head, ...rows] : rows;
    this.#widths ??= this.#head.map((_, column) =>
      Math.max(...lines.map((cells) => cells[column]?.length ?? 0)),
    );
    const widths = this.#widths;
    return lines
      .map((cells) =>
        cells
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("  ")
          .trimEnd(),
      )
      .map((line) => `${line}\n`)
      .join("");
  }
}

/** Returns a time span in its largest units, such as `2h05m` or `12s`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const two = (count: number): string => String(count).padStart(2, "0");
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600)];
  if (hours > 0) {
    return `${hours}h${two(minutes % 60)}m`;
  }
  return minutes > 0 ? `${minutes}m${two(seconds % 60)}s` : `${seconds}s`;
}
