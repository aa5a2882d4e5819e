// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { RefusedRequests } from "./refused-requests.ts";

const admitted = (refused: RefusedRequests, addresses: readonly string[]): number =>
  Array.from({ length: 3_000 }, (_, i) => addresses[i % addresses.length] ?? "").filter((address) =>
    refused.count(address),
  ).length;

test("the refused requests of a network's connections share one limit", () => {
  let nowMs = 0;
  const refused = new RefusedRequests(true, () => nowMs);
  expect(admitted(refused, ["192.0.2.1:1", "192.0.2.1:2"])).toBe(1_024);
  expect(refused.count("192.0.2.2:1")).toBe(true);
  nowMs = 1_000;
  expect(admitted(refused, ["192.0.2.1:3"])).toBe(256);
});

test("each connection has a limit of its own if networks are not summed", () => {
  const refused = new RefusedRequests(false, () => 0);
  expect(admitted(refused, ["192.0.2.1:1", "192.0.2.1:2"])).toBe(2_048);
});
