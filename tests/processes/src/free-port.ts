// SPDX-License-Identifier: Apache-2.0
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Ports below the ranges from which systems assign ephemeral ports. */
const [first, last] = [20_000, 32_767];

/** Returns a free port of 127.0.0.1 that the system does not assign by itself, for programs that cannot pick one. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(first, last + 1);
    const server = createServer();
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EADDRINUSE") {
        continue;
      }
      throw error;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}
