// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { ReadPropertyRequestSchema } from "@dm-env-rpc/protocol";
import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { property } from "../definition/property.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerEvent } from "../host/events.ts";

const buggy = {
  broken: property(t.int32(), { read: () => (undefined as never as { x: number }).x }),
  stuck: property(t.int32(), { read: () => new Promise<number>(() => {}) }),
};

async function setUp() {
  const events: ServerEvent[] = [];
  const time = manualTime();
  const talkative = defineWorld({
    name: "talkative",
    actions: {},
    observations: {},
    create: () => ({ step() {}, observe: {}, properties: { game: buggy } }),
  });
  const server = createEnvironmentServer({
    worlds: [talkative],
    properties: { shop: buggy },
    limits: { stepMs: 500, idleStreamMs: 0 },
    time,
    onEvent: (event) => events.push(event),
  });
  const host = connectPeer(server);
  const [one] = (await joinedPeers(server, await host.createWorld(), 1)) as [Peer];
  return { events, time, host, one };
}

async function read(peer: Peer, key: string): Promise<void> {
  const value = create(ReadPropertyRequestSchema, { keys: [key] });
  const response = await peer.send({ case: "readProperty", value });
  if (response.case === "error") {
    throw new Error(`${response.value.code}: ${response.value.message}`);
  }
}

describe("behaviour 46: an author's function that answers properties", () => {
  it.each([
    ["the server", "shop.broken", undefined],
    ["a world", "game.broken", "talkative-1"],
  ])(
    "of %s: if it throws, both the client and the operator receive the property's name",
    async (_of, key, worldName) => {
      const { events, one } = await setUp();
      await expect(read(one, key)).rejects.toThrow(
        new RegExp(`^13: the property "${key}" failed: .*undefined`),
      );
      const error = expect.any(TypeError);
      expect(events).toContainEqual({
        kind: "answer-failed",
        worldName,
        what: `property "${key}"`,
        error,
      });
      expect((await one.step()).state).toBe("RUNNING");
    },
  );

  it("of the server: has a time limit, and the stream continues", async () => {
    const { time, one } = await setUp();
    const late = expect(read(one, "shop.stuck")).rejects.toThrow(
      /^4: the property "shop.stuck" did not answer within 500 ms \(limit: stepMs\)/,
    );
    await quiet();
    time.advance(500);
    await late;
    expect(time.timers).toBe(0);
    expect((await one.step()).state).toBe("RUNNING");
  });

  it("of a world: is named when the world fails because it never answers", async () => {
    const { time, one } = await setUp();
    const late = expect(read(one, "game.stuck")).rejects.toThrow(
      /^4: .*"talkative-1" failed.*"properties.game.stuck" failed.*500 ms \(limit: stepMs\)/,
    );
    await quiet();
    time.advance(500);
    await late;
  });
});
