// SPDX-License-Identifier: Apache-2.0

/** A table as text: the first column to the left, figures to the right. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  const rule = "─".repeat(widths.reduce((sum, width) => sum + width + 2, -2));
  return [lines[0], rule, ...lines.slice(1)].join("\n");
}

/** A table in Markdown. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** A number in three digits: `1.21M`, `299k`, `12.1k`, `963`, `4.06`. */
export function short(value: number): string {
  if (!Number.isFinite(value)) {
    return "–";
  }
  if (value >= 999_500) {
    return `${threeDigits(value / 1e6)}M`;
  }
  if (value >= 9_995) {
    return `${threeDigits(value / 1000)}k`;
  }
  if (value >= 99.95) {
    return Math.round(value).toLocaleString("en");
  }
  return threeDigits(value);
}

/** Bytes in MB. */
export function megabytes(bytes: number): string {
  return `${threeDigits(bytes / 1e6)} MB`;
}

function threeDigits(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
