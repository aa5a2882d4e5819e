// SPDX-License-Identifier: Apache-2.0

import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Fleet } from "../../../testing/fleet.ts";
import { startMs } from "../../../testing/start-ms.ts";
import { storeWithOutage } from "../../../testing/wrapped-stores.ts";
import { memoryStore } from "../../store/memory-store.ts";
import { serverKey, typeKey, WorldTasks } from "./world-tasks.ts";

it("a failed create that cannot be undone because the store is unavailable is reported, and undone later", async () => {
  const time = manualTime(startMs);
  const { store, outage } = storeWithOutage(memoryStore({ time }), "commit");
  await using fleet = await Fleet.open({ time, store });
  const server = await fleet.serve("a");
  server.createErrors.push(new Error("the network is down"));
  fleet.servers.pace = async () => {
    outage.isOn = true;
  };
  const ids = await fleet.tickets(2);
  await fleet.settle(1);
  const kinds = (): string[] => fleet.events.map(({ kind }) => kind);
  expect(kinds()).toContain("store-failed");
  outage.isOn = false;
  fleet.servers.pace = async () => {};
  await fleet.pass(5_000);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect(kinds()).not.toContain("step-failed");
});

it("a cooldown doubles with each failure in a row, and failures that were long ago are forgotten", () => {
  const time = manualTime(startMs);
  const tasks = new WorldTasks(time, 1_000, () => {});
  const cooldownMs = (): number => {
    let passedMs = 0;
    while (tasks.isCooling("a")) {
      time.advance(500);
      passedMs += 500;
    }
    return passedMs;
  };
  const fail = (): number => {
    tasks.failed("a");
    return cooldownMs();
  };
  expect([fail(), fail(), fail()]).toEqual([1_000, 2_000, 4_000]);
  // Failures are forgotten when their cooldown has been over for longer than the longest cooldown, 32 s.
  time.advance(32_000);
  tasks.sweep();
  expect(fail()).toBe(8_000);
  time.advance(32_001);
  tasks.sweep();
  expect(fail()).toBe(1_000);
  expect([fail(), fail(), fail(), fail(), fail(), fail()]).toEqual([
    2_000, 4_000, 8_000, 16_000, 32_000, 32_000,
  ]);
  tasks.failed("a");
  tasks.succeeded("a");
  expect(tasks.isCooling("a")).toBe(false);
  expect(fail()).toBe(1_000);
});

it("servers and their world types have different cooldowns, whatever characters their ids and names have", () => {
  const keys = [
    serverKey("evaluate"),
    serverKey("a b"),
    typeKey("a b", "c"),
    typeKey("a", "b c"),
    "evaluate",
    "profile a",
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(serverKey("profile a")).not.toBe("profile a");
});
