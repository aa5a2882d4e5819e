// SPDX-License-Identifier: Apache-2.0
import { createEnvironmentServer } from "@dm-env-rpc/server";
import { listen } from "@dm-env-rpc/transport";
import { type Fault, withFault } from "./faulty-stream.ts";
import { meadow } from "./meadow.ts";

/** A server of meadows, whose sessions have a fault. */
export async function serveWithFault(
  make: () => Fault,
): Promise<{ address: string } & AsyncDisposable> {
  const environments = createEnvironmentServer({ worlds: [meadow()] });
  const listener = await listen({
    host: "127.0.0.1",
    port: 0,
    onStream: (stream) => environments.accept(withFault(stream, make())),
  });
  return {
    address: `127.0.0.1:${listener.port}`,
    async [Symbol.asyncDispose]() {
      await environments.close();
      await listener.close({ graceMs: 0 });
    },
  };
}
