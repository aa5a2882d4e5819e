// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { Http2Server } from "node:http2";
import type { AddressInfo, Server } from "node:net";
import type { Served } from "./peer.ts";

/** Listens on a free port of this machine. */
export async function listenOn(server: Server | Http2Server): Promise<Served> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async close() {
      server.close();
    },
  };
}

/** Counts complete messages of `size` bytes in chunks of any size. */
export function messageCounter(size: number): (chunkBytes: number) => number {
  let bytes = 0;
  return (chunkBytes) => {
    bytes += chunkBytes;
    const count = Math.floor(bytes / size);
    bytes -= count * size;
    return count;
  };
}

/** Writes one message several times in one write; the buffer of each count is cached. */
export function repeated(message: Buffer): (count: number) => Buffer {
  const kept = new Map<number, Buffer>([[1, message]]);
  return (count) => {
    const found = kept.get(count);
    if (found !== undefined) {
      return found;
    }
    const made = Buffer.concat(Array.from({ length: count }, () => message));
    if (made.length <= 64 * 1024) {
      kept.set(count, made);
    }
    return made;
  };
}
