// SPDX-License-Identifier: Apache-2.0
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { expect, it, vi } from "vitest";
import { pairs } from "../../../packages/matchmaker/testing/pairs.ts";
import { serveCounting } from "../../../packages/matchmaker/testing/world-server.ts";
import { createMetrics } from "./metrics.ts";

it("a scrape has the current numbers of tickets, servers, worlds and matches, and counts them once", async () => {
  await using served = await serveMatchmaker({ profiles: [pairs] });
  const counts = vi.spyOn(served.matchmaker, "counts");
  const { registry, watch } = createMetrics();
  watch(served);
  const scrape = async () => {
    const text = await registry.metrics();
    const sumOf = (name: string): number => {
      const lines = text.matchAll(
        new RegExp(`^dm_env_rpc_matchmaker_${name}(?:\\{.*\\})? (\\d+)$`, "gm"),
      );
      return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
    };
    return ["tickets", "servers", "worlds", "matches"].map(sumOf);
  };
  expect(await scrape()).toEqual([0, 0, 0, 0]);
  await using _registered = await serveCounting(served.url);
  const client = matchmakerClient(served.url, { timeoutMs: 60_000 });
  await Promise.all([client.findMatch(), client.findMatch()]);
  expect(await scrape()).toEqual([2, 1, 1, 1]);
  expect(counts).toHaveBeenCalledTimes(2);
});
