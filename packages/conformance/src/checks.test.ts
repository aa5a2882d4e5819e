// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { allChecks, unseen } from "./checks/index.ts";

it("has a check for every behaviour of a server, or the reason for its absence", () => {
  const wanted = [
    ...Array.from({ length: 46 }, (_, i) => i + 1),
    60,
    61,
    62,
    63,
    65,
    70,
    71,
    72,
    73,
  ];
  const covered = new Set([...allChecks, ...unseen].map(({ behaviour }) => behaviour));
  expect([...covered].sort((a, b) => a - b)).toEqual(wanted);
});

it("gives each check a unique id that begins with its behaviour", () => {
  const ids = allChecks.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { id, behaviour } of allChecks) {
    expect(id).toMatch(new RegExp(`^${behaviour}\\.[a-z-]+$`));
  }
});
