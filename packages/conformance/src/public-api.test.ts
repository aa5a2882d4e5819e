// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import * as api from "./index.ts";
import * as vitest from "./vitest.ts";

it("exports these names and no others", () => {
  expect(Object.keys(api).sort()).toEqual([
    "allChecks",
    "clockNames",
    "jsonReport",
    "junitReport",
    "parseConfig",
    "reportText",
    "resultText",
    "runConformance",
    "summaryText",
  ]);
  expect(Object.keys(vitest)).toEqual(["describeConformance"]);
});
