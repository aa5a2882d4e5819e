// SPDX-License-Identifier: Apache-2.0
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "@dm-env-rpc/server";
import { oursAt } from "../peers/ours.ts";
import type { Peer } from "../peers/peer.ts";

/** Returns the path of the Unix domain socket of the server whose TCP port is `port`. */
const pathOf = (port: number): string => join(tmpdir(), `dm-env-rpc-bench-${port}.sock`);

/** One environment over a Unix domain socket. The same process also serves TCP, whose port identifies the socket. */
export const unixSocket: Peer = {
  ...oursAt((port) => `unix:${pathOf(port)}`),
  async serve({ world }) {
    const tcp = await serve({ worlds: [world] });
    const path = pathOf(tcp.port);
    const unix = await serve({ worlds: [world], host: `unix:${path}` });
    // Workers exit without closing what they serve.
    process.once("exit", () => rmSync(path, { force: true }));
    return {
      port: tcp.port,
      close: async () => {
        await Promise.all([tcp.close(), unix.close()]);
      },
    };
  },
};
