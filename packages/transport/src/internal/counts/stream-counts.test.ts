// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { RefusalCounts } from "./refusal-counts.ts";
import { StreamCounts } from "./stream-counts.ts";

const ipv4 = "192.0.2.1:1000";

/** Opens as many as an address may have; returns the functions that close them, and the error of one more. */
function fill(counts: StreamCounts, address: string) {
  const open: (() => void)[] = [];
  for (;;) {
    const opened = counts.open(address);
    if (typeof opened !== "function") {
      return { open, error: opened };
    }
    open.push(opened);
  }
}

test("one address cannot use up the streams of the others", () => {
  const refusals = new RefusalCounts();
  const counts = new StreamCounts("streams", { maxStreams: 5, maxStreamsPerAddress: 3 }, refusals);
  const first = fill(counts, ipv4);
  expect(first.open).toHaveLength(3);
  expect(first.error).toMatchObject({
    code: "RESOURCE_EXHAUSTED",
    message:
      "too many streams: expected at most 3 at a time from one address, received one more; close some, or try again later (limit: maxStreamsPerAddress)",
  });
  const second = fill(counts, "[2001:db8::1]:1000");
  expect(second.open).toHaveLength(2);
  expect(second.error.message).toBe(
    "too many streams: expected at most 5 at a time, received one more; close some, or try again later (limit: maxStreams)",
  );
  expect(Object.fromEntries(refusals.byLimit)).toEqual({ maxStreams: 1, maxStreamsPerAddress: 1 });
});

test("a closed stream makes room for one more, even if it is closed twice", () => {
  const counts = new StreamCounts(
    "calls",
    { maxStreams: 2, maxStreamsPerAddress: 2 },
    new RefusalCounts(),
  );
  const { open } = fill(counts, ipv4);
  open[0]?.();
  open[0]?.();
  expect(fill(counts, ipv4).open).toHaveLength(1);
});
