// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { listen } from "../listen/listen.ts";
import { listenLimits } from "./listen-limits.ts";

it("picks the limits of a listener from its options", () => {
  const options = { host: "127.0.0.1", maxConnections: 3, maxStreams: undefined };
  const { maxConnections, maxStreams, ...others } = listenLimits(options);
  expect([maxConnections, maxStreams]).toEqual([3, 10_000]);
  expect(others).not.toHaveProperty("host");
});

it("refuses to listen with a limit out of range", async () => {
  await expect(listen({ onStream: () => {}, maxConnections: 0 })).rejects.toThrow(
    new RangeError("limit maxConnections: expected a whole number of at least 1, received 0"),
  );
});

it("lets one address open 2,000 connections, a fifth of all", () => {
  const { maxConnections, maxConnectionsPerAddress } = listenLimits({});
  expect(maxConnectionsPerAddress).toBe(2_000);
  expect(5 * maxConnectionsPerAddress).toBeLessThanOrEqual(maxConnections);
});
