// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { type ClockName, parseConfig } from "@dm-env-rpc/conformance";
import { describeConformance } from "@dm-env-rpc/conformance/vitest";
import { describe } from "vitest";
import { hasPython, startGridworld, startPythonServer } from "./programs.ts";

function configOf(name: string) {
  return parseConfig(readFileSync(new URL(`../conformance/${name}.json`, import.meta.url), "utf8"));
}

const clocks: Readonly<Record<ClockName, readonly string[]>> = {
  lockstep: [],
  turns: [],
  realtime: ["--ticks-per-second", "200"],
  freeRunning: [],
  wakeUp: [],
};

for (const [clock, flags] of Object.entries(clocks)) {
  for (const protocol of ["grpc", "connect"] as const) {
    describeConformance({
      name: `gridworld, ${clock}, over ${protocol}`,
      protocol,
      config: { ...configOf("gridworld"), clock: clock as ClockName },
      start: () => startGridworld("--clock", clock, ...flags),
    });
  }
}

describe.skipIf(!hasPython)("a server of the official helpers", () => {
  describeConformance({
    name: "a server of the official helpers",
    config: configOf("python-server"),
    start: startPythonServer,
  });
});
