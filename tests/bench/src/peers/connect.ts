// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:http2";
import { createClient } from "@connectrpc/connect";
import {
  type compressionGzip,
  connectNodeAdapter,
  createGrpcTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { Environment, type EnvironmentRequest } from "@dm-env-rpc/protocol";
import { answerGenerated, generatedRequest } from "../loads/generated.ts";
import type { Load } from "../loads/load.ts";
import { type Agent, moveAt, type Peer } from "./peer.ts";
import { requestQueue } from "./queue.ts";
import { listenOn } from "./sockets.ts";

/** connect-node on both sides, gRPC, without compression. */
export const connectPlain: Peer = connectPeer({ acceptCompression: [] });

/** connect-node on both sides, gRPC, with its defaults: gzip for messages of 1 KiB and more. */
export const connectDefaults: Peer = connectPeer({});

function connectPeer(compression: {
  readonly acceptCompression?: (typeof compressionGzip)[];
}): Peer {
  return {
    async serve(load) {
      const server = createServer(
        connectNodeAdapter({
          ...compression,
          routes: (router) => {
            router.service(Environment, {
              async *process(requests: AsyncIterable<EnvironmentRequest>) {
                const game = load.generatedGame();
                for await (const request of requests) {
                  yield answerGenerated(game, request);
                }
              },
            });
          },
        }),
      );
      return listenOn(server);
    },
    connect: async (load, port) => agent(load, port, compression),
  };
}

function agent(load: Load, port: number, compression: object): Agent {
  const baseUrl = `http://127.0.0.1:${port}`;
  const sessionManager = new Http2SessionManager(baseUrl);
  const transport = createGrpcTransport({ baseUrl, sessionManager, ...compression });
  const client = createClient(Environment, transport);
  const requests = requestQueue<EnvironmentRequest>();
  const responses = client.process(requests)[Symbol.asyncIterator]();
  let asked = 0;
  let tick = 0;
  const ask = (): void => {
    requests.push(generatedRequest(moveAt(asked), load.observations));
    asked += 1;
  };
  return {
    async play({ inFlight, until, latencies }) {
      const before = tick;
      let now = performance.now();
      for (let i = 0; i < inFlight; i++) {
        ask();
      }
      while (tick < asked) {
        const { value, done } = await responses.next();
        if (done === true) {
          throw new Error("the server ended the stream");
        }
        tick += 1;
        load.checkGenerated(tick, value);
        const then = now;
        now = performance.now();
        if (inFlight === 1) {
          latencies.record((now - then) * 1000);
        }
        if (now < until) {
          ask();
        }
      }
      return tick - before;
    },
    async close() {
      requests.end();
      await responses.next();
      sessionManager.abort();
    },
  };
}
