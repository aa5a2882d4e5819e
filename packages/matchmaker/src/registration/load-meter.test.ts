// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { startMs } from "../../testing/start-ms.ts";
import { eventLoopMeter } from "./load-meter.ts";

it("the load of the event loop is measured again after a second at the earliest", async () => {
  const time = manualTime(startMs);
  const measure = eventLoopMeter(time);
  const untilMs = performance.now() + 20;
  while (performance.now() < untilMs) {}
  const busy = measure() ?? Number.NaN;
  expect(busy).toBeGreaterThan(0);
  expect(busy).toBeLessThanOrEqual(1);
  await new Promise<void>((resolve) => setTimeout(resolve, 20));
  time.advance(999);
  expect(measure()).toBe(busy);
  // While the test polls, its event loop has pauses.
  const afterSecond = () => {
    time.advance(1_000);
    return measure();
  };
  await expect.poll(afterSecond, { timeout: 60_000 }).toBeLessThan(busy);
});
