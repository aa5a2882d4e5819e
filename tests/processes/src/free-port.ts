// SPDX-License-Identifier: Apache-2.0
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below those that systems give to whoever asks for any port, or connects from one. */
const [first, last] = [20_000, 32_767];

/** A port of 127.0.0.1 that nobody listens on, nor gets by chance meanwhile: for programs that cannot pick one. */
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
