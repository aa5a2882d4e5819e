// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect as connectHttp2, createServer } from "node:http2";
import { connect } from "@dm-env-rpc/client";
import { ours } from "./ours.ts";
import type { Peer, Player } from "./peer.ts";
import { listenOn } from "./sockets.ts";

const windowBytes = 4 * 1024 * 1024;

/** Connections to our server that never send a request. */
export const idle: Peer = {
  ...ours,
  async connect(_load, port) {
    const connection = await connect(`127.0.0.1:${port}`);
    return quiet(() => connection.close());
  },
};

/** Connections with one open stream each, on bare node:http2: what no server on it can do without. */
export const http2Idle: Peer = {
  async serve() {
    const server = createServer({ settings: { initialWindowSize: windowBytes } });
    server.on("session", (session) => session.setLocalWindowSize(windowBytes));
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.on("data", () => {});
      stream.on("error", () => {});
    });
    return listenOn(server);
  },

  async connect(_load, port) {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const stream = session.request({ ":method": "POST", ":path": "/", te: "trailers" });
    await once(stream, "response");
    return quiet(async () => session.destroy());
  },
};

function quiet(close: () => Promise<void>): Player {
  return {
    play: async () => {
      throw new Error("a connection that is idle does not play");
    },
    close,
  };
}
