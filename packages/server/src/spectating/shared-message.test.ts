// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WatchWorldsResponseSchema } from "@dm-env-rpc/protocol/spectator";
import { expect, test } from "vitest";
import { jsonFormat } from "./json-format.ts";
import { binaryFormat, SharedMessage } from "./shared-message.ts";

test.each([
  ["protobuf", binaryFormat],
  ["JSON", jsonFormat],
])("a message is encoded once: %s", (_, format) => {
  let reads = 0;
  const list = create(WatchWorldsResponseSchema, { timeMs: 5 });
  Object.defineProperty(list, "worldCount", {
    get: () => {
      reads += 1;
      return 7;
    },
  });
  const shared = new SharedMessage(WatchWorldsResponseSchema, list);
  const first = shared.encoded(format);
  const readsOfOne = reads;
  expect(readsOfOne).toBeGreaterThan(0);
  expect(shared.encoded(format)).toBe(first);
  expect(reads).toBe(readsOfOne);
});

test("JSON has an envelope with its size", () => {
  const list = create(WatchWorldsResponseSchema, { timeMs: 5, worldCount: 7 });
  const json = new SharedMessage(WatchWorldsResponseSchema, list).encoded(jsonFormat);
  const text = Buffer.from(json.subarray(5)).toString();
  expect([...json.subarray(0, 5)]).toEqual([0, 0, 0, 0, text.length]);
  expect(JSON.parse(text)).toEqual({ timeMs: 5, worldCount: 7 });
});
