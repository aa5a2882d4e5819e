// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { faults } from "../testing/faults.ts";
import { meadowConfig } from "../testing/meadow.ts";
import { serveWithFault } from "../testing/server.ts";
import { runConformance } from "./run.ts";

const config = { ...meadowConfig, timeoutMs: 400, quietMs: 30 };

it("finds nothing to complain about where sessions have no fault", async () => {
  await using server = await serveWithFault(() => ({}));
  const report = await runConformance({ address: server.address, config: meadowConfig });
  expect(report.results.filter(({ outcome }) => outcome.kind === "failed")).toEqual([]);
  expect(report.counts.passed).toBeGreaterThan(75);
});

it.each(Object.entries(faults))("finds %s", async (_name, { make, foundBy }) => {
  await using server = await serveWithFault(make);
  const { address } = server;
  const report = await runConformance({ address, config, filter: foundBy });
  expect(report.results.map(({ id, outcome }) => [id, outcome.kind])).toContainEqual([
    foundBy,
    "failed",
  ]);
  expect(report.ok).toBe(false);
});
