// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { software } from "./software.ts";

it("behaviour 59: the server tells the name and version of its package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(software).toEqual({ name: manifest.name, version: manifest.version });
});
