// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** A server that accepts connections and never answers. */
export interface SilentServer extends AsyncDisposable {
  readonly address: string;
}

/**
 * Starts a server that accepts connections and never answers.
 *
 * @param speaks Protocol of the server: nothing, or HTTP/2, whose calls it leaves open.
 */
export async function serveSilence(speaks: "nothing" | "HTTP/2"): Promise<SilentServer> {
  const server = speaks === "nothing" ? createServer() : createHttp2Server();
  // A client that ends a call resets its stream.
  server.on("stream", (stream: ServerHttp2Stream) => stream.on("error", () => stream.destroy()));
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
      await closed;
    },
  };
}
