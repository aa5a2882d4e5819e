// SPDX-License-Identifier: Apache-2.0
import { EventEmitter, once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  SpectatorService,
  WatchWorldRequestSchema,
  WatchWorldResponseSchema,
} from "@dm-env-rpc/protocol/spectator";
import { envelope, prefixBytes } from "@dm-env-rpc/transport/internal";
import type { Peer } from "../peers/peer.ts";

const path = `/${SpectatorService.typeName}/${SpectatorService.method.watchWorld.name}`;
const headers = { "content-type": "application/connect+proto", "connect-protocol-version": "1" };

/**
 * Viewers of a server's first world, each over HTTP/1.1 like a page; their steps are frames.
 *
 * They decode the first frame and count the others by their lengths, because viewers of a real server do not share its
 * processor.
 */
export const viewers: Peer = {
  async connect(load, port) {
    const calling = request({
      host: "127.0.0.1",
      port,
      path,
      method: "POST",
      headers,
      agent: false,
    });
    const world = `${load.world.name}-1`;
    const watch = create(WatchWorldRequestSchema, { world });
    calling.end(envelope(toBinary(WatchWorldRequestSchema, watch)));
    const [response] = (await once(calling, "response")) as [IncomingMessage];
    const frames = countFrames(response);
    await frames.first;
    return {
      async play({ until }) {
        const seen = frames.count;
        await sleep(Math.max(0, until - performance.now()));
        return frames.count - seen;
      },
      async close() {
        calling.destroy();
      },
    };
  },
};

/** Counts the frames of a response. */
function countFrames(response: IncomingMessage) {
  const events = new EventEmitter();
  const frames = { first: once(events, "first"), count: 0 };
  let rest: Buffer = Buffer.alloc(0);
  response.on("data", (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    while (rest.length - start >= prefixBytes) {
      const end = start + prefixBytes + rest.readUInt32BE(start + 1);
      if (end > rest.length) {
        break;
      }
      if (frames.count === 0) {
        const frame = rest.subarray(start + prefixBytes, end);
        const { view } = fromBinary(WatchWorldResponseSchema, frame);
        if (view.case === "picture") {
          events.emit("first");
        } else {
          events.emit("error", new Error(`frame: expected a picture, received ${view.case}`));
        }
      }
      frames.count += 1;
      start = end;
    }
    rest = rest.subarray(start);
  });
  return frames;
}
