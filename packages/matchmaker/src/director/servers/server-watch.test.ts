// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { House } from "../../../testing/house.ts";

it("a matchmaker that stood still for longer than any lease has lost no server", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  for (const id of ids) {
    await house.join(id);
  }
  await house.pass(1_000);
  house.time.advance(600_000);
  // It looks before it takes the report that has been waiting for it.
  await house.settle();
  await house.report(server);
  await house.pass(1_000);
  expect(house.events.map(({ kind }) => kind)).not.toContain("server-lost");
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
});

it("a server that was silent before and after a standstill is lost after its lease", async () => {
  await using house = await House.open({ settings: { serverLeaseMs: 15_000 } });
  await house.serve("a");
  await house.settle();
  const isLost = (): boolean => house.events.some(({ kind }) => kind === "server-lost");
  const watch = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      house.time.advance(1_000);
      await house.settle(1);
    }
  };
  await watch(8_000);
  house.time.advance(600_000);
  await watch(1_000);
  expect(isLost()).toBe(false);
  await watch(2_000);
  expect(isLost()).toBe(true);
});
