// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A line to a server that can be cut, as when a machine dies or a cable is pulled. */
export interface Line extends AsyncDisposable {
  /** Address for clients. */
  readonly url: string;
  /** Bytes that went to the server. */
  readonly sentBytes: number;
  /** Destroys every socket, with any data in flight. */
  cut(): void;
  /** Lets this many more bytes reach the server, then cuts. */
  cutAfter(bytes: number): void;
}

/** Makes a line to a server's port. */
export async function lineTo(port: number): Promise<Line> {
  const sockets = new Set<Socket>();
  let sentBytes = 0;
  let left = Number.POSITIVE_INFINITY;
  const cut = (): void => {
    for (const socket of sockets) {
      socket.destroy();
    }
  };
  const forget = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  };
  const proxy = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    forget(near);
    forget(far);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    far.on("data", (bytes) => near.write(bytes));
    near.on("data", (bytes) => {
      const passed = bytes.subarray(0, left);
      sentBytes += passed.length;
      left -= passed.length;
      far.write(passed, () => {
        if (left === 0) {
          cut();
        }
      });
    });
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  if (address === null || typeof address === "string") {
    throw new Error("a proxy without a port");
  }
  return {
    url: `http://127.0.0.1:${address.port}`,
    get sentBytes() {
      return sentBytes;
    },
    cut,
    cutAfter(bytes) {
      left = bytes;
    },
    async [Symbol.asyncDispose]() {
      cut();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
