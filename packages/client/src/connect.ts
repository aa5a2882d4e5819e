// SPDX-License-Identifier: Apache-2.0
import { type ClientStream, type OpenOptions, openStream } from "@dm-env-rpc/transport";
import type { Connection } from "./connection.ts";
import { ConnectionState } from "./connection-state.ts";

/** Requests in flight at once, where `maxInFlight` says nothing else. */
export const defaultMaxInFlight = 256;

/** Requests that wait for room in the window, where `maxWaiting` says nothing else. */
export const defaultMaxWaiting = 65_536;

/** How to connect. What the transport takes (TLS, metadata, keepalive, limits) is passed on. */
export interface ConnectOptions extends OpenOptions {
  /** Requests sent and not answered at once; later ones wait. Default 256. */
  readonly maxInFlight?: number | undefined;
  /** Requests that may wait for room; one more rejects with `ResourceExhausted`. Default 65,536. */
  readonly maxWaiting?: number | undefined;
}

/** A stream that is there already: one of an in-memory pair, or one opened with the transport. */
export interface StreamTarget {
  readonly stream: ClientStream;
  /** What the server is called in errors. Default "the server". */
  readonly name?: string | undefined;
}

/**
 * Connects to a server: to an address (`host:port`, `http://host:port` or `https://host:port`), or over
 * a stream that is there already, without a network.
 *
 * @throws ConnectError `Unavailable` when nobody answers there, `DeadlineExceeded` and `Canceled` as
 * the options say, `InvalidArgument` for an address that is none.
 */
export async function connect(
  target: string | StreamTarget,
  options: ConnectOptions = {},
): Promise<Connection> {
  const { maxInFlight = defaultMaxInFlight, maxWaiting = defaultMaxWaiting, ...open } = options;
  const limits = { maxInFlight, maxWaiting };
  if (typeof target !== "string")
    return new ConnectionState(target.stream, target.name ?? "the server", limits);
  const stream = await openStream(target, open);
  return new ConnectionState(stream, stream.address, limits, () => stream.close());
}
