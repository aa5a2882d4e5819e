// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A proxy to a server. */
export interface CuttableLine extends AsyncDisposable {
  readonly address: string;
  /** URL of the server to which the next connections lead. */
  target: string;
  /** Cuts all connections. */
  cut(): void;
}

/** Opens a proxy to the server at a URL. */
export async function cuttableLine(target: string): Promise<CuttableLine> {
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const { hostname, port } = new URL(line.target);
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
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
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
  return line;
}
