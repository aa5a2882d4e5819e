// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { RequestRates } from "./request-rates.ts";

/** Counts requests of an address until one is refused. */
function accepted(rates: RequestRates, address: string): number {
  let count = 0;
  while (rates.refusal(address) === undefined) {
    count += 1;
  }
  return count;
}

test("an address may send four seconds' worth of requests at once, and then at its rate", () => {
  let nowMs = 0;
  const rates = new RequestRates(10, { now: () => nowMs });
  expect(accepted(rates, "192.0.2.1:1000")).toBe(40);
  nowMs += 500;
  expect(accepted(rates, "192.0.2.1:2000")).toBe(5);
  nowMs += 60_000;
  expect(accepted(rates, "192.0.2.1:1000")).toBe(40);
});

test("a refusal names the limit and the remedy", () => {
  const rates = new RequestRates(1, { now: () => 0 });
  accepted(rates, "192.0.2.1:1000");
  const error = rates.refusal("192.0.2.1:1000");
  expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(error?.message).toBe(
    "too many requests: expected at most 1 per second from one address (steps are not counted), received more; send fewer, or try again in a second (limit: maxRequestsPerSecond)",
  );
});

test("all refusals share one error, because a flood would spend its time on the stacks of errors", () => {
  const rates = new RequestRates(1, { now: () => 0 });
  accepted(rates, "192.0.2.1:1000");
  accepted(rates, "192.0.2.2:1000");
  const error = rates.refusal("192.0.2.1:1000");
  expect(error).toBeDefined();
  expect(rates.refusal("192.0.2.2:1000")).toBe(error);
});

test("one address does not use up the rate of another", () => {
  const rates = new RequestRates(10, { now: () => 0 });
  accepted(rates, "[2001:db8::1]:1000");
  expect(rates.refusal("[2001:db8::2]:1000")).toBeDefined(); // The same network of 64 bits.
  expect(rates.refusal("[2001:db8:0:1::1]:1000")).toBe(undefined);
});

test("a rate of 0 refuses nothing", () => {
  const rates = new RequestRates(0);
  for (let i = 0; i < 100_000; i++) {
    expect(rates.refusal("192.0.2.1:1000")).toBe(undefined);
  }
});
