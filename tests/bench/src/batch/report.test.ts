// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Measured } from "../harness/compare.ts";
import { summarize } from "../harness/statistics.ts";
import { report } from "./report.ts";

const row = (contender: string, mode: string, rate: number): Measured => ({
  ...{ contender, mode, stepsPerSecond: summarize([rate]) },
  ...{ serverCpuMicros: summarize([0.5]), clientCpuMicros: summarize([2]) },
  ...{ serverGcMicros: undefined, clientGcMicros: undefined },
  ...{ p50Micros: undefined, p99Micros: undefined },
  ...{ serverRssBytes: undefined, clientRssBytes: 0 },
});

const side = { runtime: "node", peer: "batch-slots" } as const;

it("reports batches as Markdown, with each bar and each contender that did not play", () => {
  const { text, missed } = report({
    turns: 3,
    rows: [row("ours", "slots64", 2e5), row("slots", "slots1024", 9e5)],
    verdicts: [
      {
        ...{ mode: "slots64", contender: "ours", against: "theirs", figure: "stepsPerSecond" },
        ...{ bound: 40, ratio: 50, met: true },
      },
    ],
    floors: [{ contender: "slots", mode: "slots1024", least: 1e6 }],
    servers: [1, 2].map((servers) => ({
      ...{ servers, stepsPerSecond: summarize([900 * servers]) },
      serverCpuMicros: summarize([1000]),
    })),
    missing: { envpool: "ImportError: no matplotlib" },
    contenders: [{ id: "ours", label: "official client", server: side, client: side }],
    growth: ["slots"],
    sizes: [],
  });
  expect(text.split("\n")).toEqual(
    expect.arrayContaining([
      "| slots | 64 | 1,024 |",
      "| official client | 200k (0.50 + 2.00) | – |",
      "| growth, slots | 1,024 |",
      "- ✓ official client, 64: 50.0 times theirs (≥ 40)",
      "- ✗ slots, 1,024: 900k steps/s (≥ 1.00M)",
      "- ✓ 2 server processes: 2.00 times one (≥ 1.7)",
      "- – without envpool: ImportError: no matplotlib",
    ]),
  );
  expect(missed).toBe(1);
});
