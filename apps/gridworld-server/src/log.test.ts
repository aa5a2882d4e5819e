// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLog } from "./log.ts";

describe("the log", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function setUp() {
    const lines: string[] = [];
    return { lines, log: createLog((line) => lines.push(line)) };
  }

  const refused = { kind: "transport-error", error: new Error("bad connection") } as const;

  it("has at most five lines of a kind in ten seconds, and then the number of further events", () => {
    const { lines, log } = setUp();
    for (let i = 0; i < 16_000; i++) {
      log(refused);
    }
    const five = Array<string>(5).fill("transport-error: bad connection\n");
    expect(lines).toEqual(five);
    vi.advanceTimersByTime(10_000);
    const sum = "transport-error: and 15,995 more in the last 10 s\n";
    expect(lines).toEqual([...five, sum]);
    vi.advanceTimersByTime(60_000);
    log(refused);
    expect(lines).toEqual([...five, sum, five[0]]);
  });

  it("says at the end how many lines it has left out", () => {
    const { lines, log } = setUp();
    for (let i = 0; i < 7; i++) {
      log(refused);
    }
    log({ kind: "server-closing", graceMs: 0 });
    expect(lines.at(-1)).toBe("transport-error: and 2 more in the last 1 s\n");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("has the whole error of a world, of which agents receive a part", () => {
    const { lines, log } = setUp();
    const cause = new Error("open '/srv/level.json'");
    const error = new DmEnvRpcError("INTERNAL", "the world failed: open '<path>'", {
      cause: new Error("step failed", { cause }),
    });
    log({ kind: "world-failed", worldName: "a", worldType: "b", error });
    expect(lines).toEqual([`world-failed: the world failed: open '<path>'\n${cause.stack}\n`]);
  });
});
