// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { manualTime } from "./manual-time.ts";
import { pause } from "./time-source.ts";

it("runs due callbacks in order, each at its own time", () => {
  const time = manualTime(100);
  const ran: [string, number][] = [];
  const note = (name: string) => () => void ran.push([name, time.now()]);
  time.after(30, note("late"));
  time.after(10, () => {
    note("early")();
    time.after(5, note("nested"));
  });
  const cancel = time.after(20, note("cancelled"));
  time.after(Number.POSITIVE_INFINITY, note("never"));
  cancel();
  expect([time.timers, time.due, time.now()]).toEqual([2, 110, 100]);
  time.advance(29);
  expect(ran).toEqual([
    ["early", 110],
    ["nested", 115],
  ]);
  expect([time.timers, time.due, time.now()]).toEqual([1, 130, 129]);
  time.advance(1_000);
  expect(ran.at(-1)).toEqual(["late", 130]);
  expect([time.timers, time.due, time.now()]).toEqual([0, undefined, 1_129]);
});

it("resolves a pause after its time or on abort, and leaves no timer", async () => {
  const time = manualTime();
  const paused = pause(time, 10);
  time.advance(10);
  await paused;
  const controller = new AbortController();
  const given = pause(time, 10, controller.signal);
  controller.abort();
  await given;
  await pause(time, 10, AbortSignal.abort());
  expect(time.timers).toBe(0);
});
