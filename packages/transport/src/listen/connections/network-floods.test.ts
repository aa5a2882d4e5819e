// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { NetworkFloods } from "./network-floods.ts";

const mebibyte = 1024 * 1024;
const flooding = "192.0.2.1";
const calm = "192.0.2.2";

/** Lets connections send for some seconds, checks ten times per second, and returns the connections that were ended. */
function play(bytesPerSecond: Readonly<Record<string, number>>, seconds: number): string[] {
  const floods = new NetworkFloods<string>();
  const ended = new Set<string>();
  for (let check = 0; check < 10 * seconds; check++) {
    for (const [connection, bytes] of Object.entries(bytesPerSecond)) {
      if (!ended.has(connection)) {
        floods.count(connection.startsWith("calm") ? calm : flooding, connection, bytes / 10);
      }
    }
    for (const connection of floods.check(100 * (check + 1))) {
      ended.add(connection);
    }
  }
  return [...ended].sort();
}

test("of a network whose connections flood together, those that send most are ended", () => {
  const hostile = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`hostile ${i}`, 0.9 * mebibyte]),
  );
  const ended = play({ ...hostile, "neighbour behind the same NAT": 10_000, calm: mebibyte }, 10);
  expect(ended.length).toBeGreaterThanOrEqual(35);
  expect(ended.every((connection) => connection.startsWith("hostile"))).toBe(true);
});

test("a network may send up to the limit forever", () => {
  const busy = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`agent ${i}`, 40_000]));
  expect(play(busy, 60)).toEqual([]);
});

test("a short burst is forgiven", () => {
  const floods = new NetworkFloods<string>();
  let nowMs = 0;
  for (let burst = 0; burst < 10; burst++) {
    floods.count(flooding, "connection", 15 * mebibyte);
    for (let check = 0; check < 5; check++) {
      nowMs += 1_000;
      expect(floods.check(nowMs)).toEqual([]);
    }
  }
});

test("a burst once an hour is forgiven, even if nothing was checked in between", () => {
  const floods = new NetworkFloods<string>();
  for (let hour = 1; hour <= 10; hour++) {
    floods.count(flooding, "connection", 15 * mebibyte);
    expect(floods.check(hour * 3_600_000)).toEqual([]);
  }
});

test("`count` returns true while the network is above its limit, until a check has ended connections", () => {
  const floods = new NetworkFloods<string>();
  expect(floods.count(flooding, "first", 10 * mebibyte)).toBe(false);
  expect(floods.count(calm, "calm", 10 * mebibyte)).toBe(false);
  expect(floods.count(flooding, "second", 7 * mebibyte)).toBe(true);
  expect(floods.count(flooding, "second", 0)).toBe(false);
  expect(floods.check(0)).toEqual(["first"]);
  expect(floods.count(flooding, "second", 9 * mebibyte)).toBe(false);
  expect(floods.count(flooding, "second", 1)).toBe(true);
});

test("of a burst above the limit, only the connections that exceed it are ended", () => {
  const floods = new NetworkFloods<number>();
  for (let connection = 0; connection < 1_030; connection++) {
    floods.count(flooding, connection, 16 * 1024);
  }
  expect(floods.check(100)).toHaveLength(6);
});
