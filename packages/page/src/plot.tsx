// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import { formatNumber, formatTime } from "./format.ts";

/** A line over time. */
export interface PlotProps {
  readonly title: string;
  /** Times in milliseconds, and values. The line connects the values on both sides of a missing value. */
  readonly times: readonly number[];
  readonly values: readonly (number | undefined)[];
}

const height = 150;

/** Plots values over time. The caption contains the latest value, for people who cannot see the line. */
export function Plot({ title, times, values }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const latest = values.findLast((value) => value !== undefined);

  useEffect(() => {
    const element = place.current;
    if (element === null) {
      return;
    }
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const make = (): void => {
      plot.current?.destroy();
      plot.current = new UPlot(optionsFor(element), [[], []], element);
    };
    make();
    dark.addEventListener("change", make);
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, []);

  useEffect(() => {
    plot.current?.setData([
      times.map((time) => time / 1_000),
      values.map((value) => value ?? null),
    ]);
  }, [times, values]);

  return (
    <figure class="plot">
      <figcaption>
        {title} <strong>{latest === undefined ? "–" : formatNumber(latest)}</strong>
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}

function optionsFor(element: HTMLElement): UPlot.Options {
  const style = getComputedStyle(element);
  const [line, ink, grid] = ["--accent", "--muted", "--line"].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  const axis = {
    stroke: ink ?? "",
    grid: { stroke: grid ?? "", width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, min, max) => rangeOf(min, max) } },
    axes: [
      { ...axis, size: 28, space: 90, values: (_plot, ticks) => ticks.map(timeOf) },
      { ...axis, size: 56, values: (_plot, ticks) => ticks.map(formatNumber) },
    ],
    series: [
      {},
      {
        stroke: line ?? "",
        width: 2,
        spanGaps: true,
        points: { show: true, size: 4 },
        label: "value",
      },
    ],
  };
}

function timeOf(seconds: number): string {
  return formatTime(seconds * 1_000);
}

/** Returns the range of an axis: from 0, or from the lowest value if it is negative, to slightly above the highest value. */
function rangeOf(min: number | null, max: number | null): [number, number] {
  const [low, high] = [Math.min(0, min ?? 0), Math.max(0, max ?? 0)];
  return [low, high === low ? low + 1 : high + (high - low) * 0.05];
}
