// SPDX-License-Identifier: Apache-2.0
import { serve } from "@dm-env-rpc/server";
import { meadow, meadowConfig } from "../testing/meadow.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { describeConformance } from "./vitest.ts";

const protocols: readonly ProtocolName[] = ["grpc", "connect", "grpc-web"];

for (const protocol of protocols) {
  describeConformance({
    name: `a meadow over ${protocol}`,
    protocol,
    config: meadowConfig,
    start: async () => {
      const server = await serve({ worlds: [meadow] });
      return { address: `${server.host}:${server.port}`, close: () => server.close() };
    },
  });
}
