// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { barChart } from "./bar-chart.ts";
import { lineChart } from "./line-chart.ts";

const tags = (svg: string, tag: string): number => svg.split(`<${tag} `).length - 1;

it("a bar chart has a bar and a label for each value", () => {
  const bar = { value: 2, min: 1, max: 3, text: "2 < 3", highlighted: false };
  const svg = barChart("t", [
    {
      label: "a & b",
      bars: [
        { label: "x", ...bar },
        { label: "y", ...bar },
      ],
    },
  ]);
  expect(tags(svg, "rect")).toBe(3);
  expect(svg).toContain("a &amp; b");
  expect(svg).toContain("2 &lt; 3");
  expect(svg).not.toContain("NaN");
});

it("a line chart places values that are ten times apart at even distances", () => {
  const points = [
    [1, 10],
    [10, 100],
    [100, 1000],
  ] as const;
  const svg = lineChart("t", [
    { title: "p", xLabel: "n", lines: [{ label: "l", color: "#000", points }] },
  ]);
  const [, placed = ""] = /polyline points="([^"]*)"/.exec(svg) ?? [];
  const [a, b, c] = placed.split(" ").map((point) => point.split(",").map(Number));
  expect((b?.[0] ?? 0) - (a?.[0] ?? 0)).toBeCloseTo((c?.[0] ?? 0) - (b?.[0] ?? 0));
  expect((b?.[1] ?? 0) - (a?.[1] ?? 0)).toBeCloseTo((c?.[1] ?? 0) - (b?.[1] ?? 0));
});
