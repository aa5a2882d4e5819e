// SPDX-License-Identifier: Apache-2.0
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { SpectatorService } from "@dm-env-rpc/protocol/spectator";
import type { Peer } from "../peers/peer.ts";

/** Viewers of a server's first world, each over HTTP/1.1 like a page; their steps are frames. */
export const viewers: Peer = {
  async connect(load, port) {
    const transport = createConnectTransport({
      baseUrl: `http://127.0.0.1:${port}`,
      httpVersion: "1.1",
      nodeOptions: { agent: false },
    });
    const ended = new AbortController();
    const responses = createClient(SpectatorService, transport)
      .watchWorld({ world: `${load.world.name}-1` }, { signal: ended.signal })
      [Symbol.asyncIterator]();
    await responses.next();
    return {
      async play({ until }) {
        let frames = 0;
        while (performance.now() < until) {
          const { value, done } = await responses.next();
          if (done === true || value.view.case !== "picture") {
            throw new Error("expected frames with pictures for as long as the world is there");
          }
          frames += 1;
        }
        return frames;
      },
      async close() {
        ended.abort();
      },
    };
  },
};
