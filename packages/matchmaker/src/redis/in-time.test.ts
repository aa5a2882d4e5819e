// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { inTime } from "./in-time.ts";

describe("an answer", () => {
  it("that arrived while the process stood still is in time, although the timer runs before it is read", async () => {
    const time = manualTime();
    const losses: Error[] = [];
    const answer = setImmediate("pong");
    const received = inTime(answer, 1_000, time, (late) => losses.push(late));
    time.advance(60_000);
    expect(await received).toBe("pong");
    // Until a timer that was not cancelled would have reported a loss.
    await setImmediate();
    await setImmediate();
    expect(losses).toEqual([]);
  });

  it("that does not arrive is late once its time is over", async () => {
    const time = manualTime();
    const losses: Error[] = [];
    const received = inTime(new Promise(() => {}), 1_000, time, (late) => losses.push(late));
    const failed = expect(received).rejects.toThrow("no answer within 1000 ms");
    time.advance(999);
    await setImmediate();
    await setImmediate();
    expect(losses).toEqual([]);
    time.advance(1);
    await failed;
    expect(losses).toMatchObject([{ message: "no answer within 1000 ms" }]);
  });

  it("leaves no timer behind, whether it is a value or an error", async () => {
    const time = manualTime();
    expect(await inTime(Promise.resolve("pong"), 1_000, time)).toBe("pong");
    const refusal = Promise.reject(new Error("WRONGPASS"));
    await expect(inTime(refusal, 1_000, time)).rejects.toThrow("WRONGPASS");
    expect(time.timers).toBe(0);
  });
});
