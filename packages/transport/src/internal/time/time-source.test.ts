// SPDX-License-Identifier: Apache-2.0

import { describe, expect, it, onTestFinished, vi } from "vitest";
import { maxTimeoutMs, systemTime } from "./time-source.ts";

describe("the machine's time", () => {
  it("waits for the given time, however long", () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const called: string[] = [];
    systemTime.after(2 * maxTimeoutMs + 5, () => called.push("late"));
    systemTime.after(Number.POSITIVE_INFINITY, () => called.push("never"));
    const cancel = systemTime.after(maxTimeoutMs + 5, () => called.push("cancelled"));
    vi.advanceTimersByTime(maxTimeoutMs + 1);
    cancel();
    vi.advanceTimersByTime(maxTimeoutMs + 3);
    expect(called).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(called).toEqual(["late"]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
