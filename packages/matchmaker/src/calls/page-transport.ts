// SPDX-License-Identifier: Apache-2.0
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import type { TransportOptions } from "./node-transport.ts";

/** Creates a transport to a matchmaker over Connect and the platform's `fetch`. */
export function transportTo(url: string, { interceptors }: TransportOptions): Transport {
  return createConnectTransport({ baseUrl: url, useBinaryFormat: true, interceptors });
}
