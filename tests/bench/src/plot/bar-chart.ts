// SPDX-License-Identifier: Apache-2.0
import { escaped, picture } from "./svg.ts";

/** A bar with its spread. */
export interface PlottedBar {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  /** Label after the bar. */
  readonly text: string;
  readonly highlighted: boolean;
}

/** Bars on one scale. */
export interface BarGroup {
  readonly label: string;
  readonly bars: readonly PlottedBar[];
}

const width = 860;
const labelWidth = 250;
const barWidth = 400;
const rowHeight = 20;
const groupGap = 34;

/** Horizontal bars in groups, each on a scale of its own from zero; a whisker spans minimum and maximum. */
export function barChart(title: string, groups: readonly BarGroup[]): string {
  const parts: string[] = [];
  let y = 34;
  for (const { label, bars } of groups) {
    y += groupGap;
    parts.push(`<text x="10" y="${y - 8}" font-weight="600">${escaped(label)}</text>`);
    const scale = barWidth / Math.max(...bars.map(({ max }) => max));
    for (const bar of bars) {
      parts.push(plotted(bar, y, scale));
      y += rowHeight;
    }
  }
  return picture(title, width, y + 14, parts);
}

function plotted(bar: PlottedBar, y: number, scale: number): string {
  const { label, value, min, max, text, highlighted } = bar;
  const middle = y + rowHeight / 2 - 1;
  const end = labelWidth + value * scale;
  const [left, right] = [labelWidth + min * scale, labelWidth + max * scale];
  return [
    `<text x="${labelWidth - 8}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>`,
    `<rect x="${labelWidth}" y="${y + 1}" width="${(end - labelWidth).toFixed(1)}" height="${rowHeight - 5}" fill="${highlighted ? "#0b6bcb" : "#b8c4d0"}"/>`,
    `<path d="M${left.toFixed(1)} ${middle}H${right.toFixed(1)}" stroke="#333"/>`,
    `<text x="${(Math.max(end, right) + 6).toFixed(1)}" y="${middle + 4}" fill="#444">${escaped(text)}</text>`,
  ].join("\n");
}
