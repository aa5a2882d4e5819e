// SPDX-License-Identifier: Apache-2.0
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import type { TransportOptions } from "./node-transport.ts";

/** Calls a matchmaker by Connect, over the platform's `fetch`. */
export function transportTo(url: string, { interceptors }: TransportOptions): Transport {
  return createConnectTransport({ baseUrl: url, useBinaryFormat: true, interceptors });
}
