// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { examplesFolder, examplesOf } from "./examples.ts";
import { compile } from "./programs.ts";

it("every example in a docstring compiles", () => {
  const examples = examplesOf();
  expect(examples.length).toBeGreaterThan(30);
  const complaints = compile(examples, examplesFolder);
  expect(complaints.map(({ path, line, message }) => `${path}:${line}: ${message}`)).toEqual([]);
});
