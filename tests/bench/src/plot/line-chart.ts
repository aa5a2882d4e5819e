// SPDX-License-Identifier: Apache-2.0
import { escaped, picture } from "./svg.ts";

/** One line of a panel. */
export interface Line {
  readonly label: string;
  readonly color: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** One plot, logarithmic both ways. */
export interface Panel {
  readonly title: string;
  readonly xLabel: string;
  readonly lines: readonly Line[];
}

const columns = 3;
const panelWidth = 320;
const panelHeight = 230;
const left = 52;
const bottom = 42;
const top = 30;
const right = 16;
const head = 40;

/** Panels in rows of three. */
export function lineChart(title: string, panels: readonly Panel[]): string {
  const width = columns * panelWidth;
  const height = head + Math.ceil(panels.length / columns) * panelHeight + 10;
  const drawn = panels.map((panel, index) => {
    const x = (index % columns) * panelWidth;
    const y = head + Math.floor(index / columns) * panelHeight;
    return `<g transform="translate(${x} ${y})">\n${drawPanel(panel)}\n</g>`;
  });
  return picture(title, width, height, drawn);
}

function drawPanel({ title, xLabel, lines }: Panel): string {
  const points = lines.flatMap((line) => line.points);
  const xs = scale(
    points.map(([x]) => x),
    left,
    panelWidth - right,
  );
  const ys = scale(
    points.map(([, y]) => y),
    panelHeight - bottom,
    top,
  );
  const parts = [
    `<text x="${left}" y="16" font-weight="600">${escaped(title)}</text>`,
    `<text x="${panelWidth - right}" y="${panelHeight - 8}" text-anchor="end" fill="#444">${escaped(xLabel)}</text>`,
  ];
  for (const value of xs.ticks) {
    const x = xs.place(value).toFixed(1);
    parts.push(
      `<path d="M${x} ${top}V${panelHeight - bottom}" stroke="#eee"/>`,
      `<text x="${x}" y="${panelHeight - bottom + 14}" text-anchor="middle" fill="#666">${tick(value)}</text>`,
    );
  }
  for (const value of ys.ticks) {
    const y = ys.place(value);
    parts.push(
      `<path d="M${left} ${y.toFixed(1)}H${panelWidth - right}" stroke="#eee"/>`,
      `<text x="${left - 6}" y="${(y + 4).toFixed(1)}" text-anchor="end" fill="#666">${tick(value)}</text>`,
    );
  }
  const drawn = lines.filter((line) => line.points.length > 0);
  for (const [index, { label, color, points: line }] of drawn.entries()) {
    const placed = line.map(([x, y]) => [xs.place(x).toFixed(1), ys.place(y).toFixed(1)] as const);
    parts.push(
      `<polyline points="${placed.map((point) => point.join()).join(" ")}" fill="none" stroke="${color}" stroke-width="2"/>`,
      ...placed.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2.5" fill="${color}"/>`),
      `<text x="${panelWidth - right}" y="${top + 12 + index * 14}" text-anchor="end" fill="${color}">${escaped(label)}</text>`,
    );
  }
  return parts.join("\n");
}

/** Powers of ten around the values, placed evenly from one pixel to another. */
function scale(values: readonly number[], from: number, to: number) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)),
    place: (value: number): number =>
      from + ((Math.log10(value) - low) / (high - low)) * (to - from),
  };
}

function tick(value: number): string {
  if (value >= 1e6) {
    return `${value / 1e6}M`;
  }
  if (value >= 1e3) {
    return `${value / 1e3}k`;
  }
  return String(Number(value.toPrecision(1)));
}
