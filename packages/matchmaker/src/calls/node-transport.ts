// SPDX-License-Identifier: Apache-2.0
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { OpenTls } from "@dm-env-rpc/transport";
import { SurvivingSessions } from "./surviving-sessions.ts";

/** Options of calls to a matchmaker. */
export interface TransportOptions {
  /** Time limit of a call. */
  readonly timeoutMs: number;
  readonly tls: OpenTls | undefined;
  readonly interceptors: Interceptor[];
}

/** Creates a transport to a matchmaker over gRPC. In pages, `page-transport.ts` replaces this file. */
export function transportTo(url: string, options: TransportOptions): Transport {
  const { timeoutMs, tls, interceptors } = options;
  // A stream may stay idle, because pings detect a dead peer.
  const life = {
    pingIntervalMs: 10_000,
    pingTimeoutMs: timeoutMs,
    idleConnectionTimeoutMs: 60_000,
  };
  const sessionManager = new SurvivingSessions(url, life, nodeTls(tls));
  return createGrpcTransport({ baseUrl: url, sessionManager, interceptors });
}

function nodeTls(tls: OpenTls | undefined): Record<string, unknown> {
  if (tls === undefined) {
    return {};
  }
  const { serverName, ...rest } = tls;
  return { ...rest, ...(serverName === undefined ? {} : { servername: serverName }) };
}
