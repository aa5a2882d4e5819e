// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A proxy to a server. */
export interface CuttableLine extends AsyncDisposable {
  readonly address: string;
  /** URL of the server to which the next connections lead. */
  target: string;
  /** Number of connections that it has accepted. */
  readonly accepted: number;
  /** Cuts all connections. */
  cut(): void;
  /** Cuts all connections of the clients. The server does not notice: its sides of the connections stay open. */
  lose(): void;
  /** Swallows all bytes of open and of new connections, and closes none, as if the server's host had vanished. */
  silence(): void;
  /** New connections lead to the server again. Silent ones stay silent. */
  restore(): void;
}

/** Opens a proxy to the server at a URL. */
export async function cuttableLine(target: string): Promise<CuttableLine> {
  const sockets = new Set<Socket>();
  /** The clients' sides of the open connections. */
  const nears = new Set<Socket>();
  const lost = new WeakSet<Socket>();
  let accepted = 0;
  let isSilent = false;
  const proxy = createServer((near) => {
    accepted++;
    const { hostname, port } = new URL(line.target);
    const far = connect(Number(port), hostname);
    nears.add(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        nears.delete(near);
        near.destroy();
        if (!lost.has(near)) {
          far.destroy();
        }
      });
    }
    if (isSilent) {
      near.resume();
    } else {
      near.pipe(far).pipe(near);
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const cut = (): void => {
    for (const socket of sockets) {
      socket.destroy();
    }
  };
  const line: CuttableLine = {
    target,
    address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    get accepted() {
      return accepted;
    },
    cut,
    lose() {
      for (const near of nears) {
        lost.add(near);
        near.unpipe();
        near.destroy();
      }
    },
    silence() {
      isSilent = true;
      for (const socket of sockets) {
        socket.unpipe();
        socket.resume();
      }
    },
    restore() {
      isSilent = false;
    },
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
  return line;
}
