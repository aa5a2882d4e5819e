// SPDX-License-Identifier: Apache-2.0
import { type OpenOptions, openStream } from "@dm-env-rpc/transport";
import { type ServeOptions, type Server, serve } from "../src/host/serve.ts";
import { Peer } from "./peer.ts";

/** A server on a free port; disposing fails if a stream leaked. */
export async function serving(options: ServeOptions): Promise<Server> {
  const server = await serve(options);
  return {
    ...server,
    get sessionCount() {
      return server.sessionCount;
    },
    async [Symbol.asyncDispose]() {
      await server.close({ graceMs: 0 });
      if (server.sessionCount > 0) {
        throw new Error(`leak: ${server.sessionCount} streams are left after close`);
      }
    },
  };
}

/** A peer over HTTP/2; disposing it cuts its connection. */
export async function networkPeer(
  server: Pick<Server, "url">,
  options: OpenOptions = {},
): Promise<Peer & AsyncDisposable> {
  const stream = await openStream(server.url, options);
  return Object.assign(new Peer(stream), { [Symbol.asyncDispose]: () => stream.close() });
}

/** Waits, turn by turn of the event loop, until something holds. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
