// SPDX-License-Identifier: Apache-2.0
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import {
  type CallCodecs,
  type ClientStream,
  type OpenOptions,
  openStream,
} from "@dm-env-rpc/transport";
import type { Connection } from "../environment/environment.ts";
import { ConnectionState } from "./connection-state.ts";
import type { ReconnectOptions } from "./reconnect.ts";

/** Requests in flight at once, where `maxInFlight` says nothing else. */
export const defaultMaxInFlight = 256;

/** Requests that wait for room in the window, where `maxWaiting` says nothing else. */
export const defaultMaxWaiting = 65_536;

/** How to connect. What the transport takes (TLS, metadata, keepalive, limits) is passed on. */
export interface ConnectOptions extends OpenOptions {
  /** Requests sent and not answered at once; later ones wait. Default 256. */
  readonly maxInFlight?: number | undefined;
  /** Requests that may wait for room; one more rejects with RESOURCE_EXHAUSTED. Default 65,536. */
  readonly maxWaiting?: number | undefined;
  /**
   * Makes a lost connection again and joins the same world again. Default: off. What was open at the
   * loss rejects, once it is known what became of the world (`worldFate`); where nothing was, the next step does.
   */
  readonly reconnect?: ReconnectOptions | undefined;
}

/** A stream that is there already: one of an in-memory pair, or one opened with the transport. */
export interface StreamTarget {
  readonly stream: ClientStream;
  /** What the server is called in errors. Default "the server". */
  readonly name?: string | undefined;
  /** Opens another stream to the same server; without it, there is no reconnect. */
  readonly reopen?: ((signal: AbortSignal) => Promise<ClientStream>) | undefined;
}

/** The codecs of a connection, or of several. Of scalars environments keep the numbers, and `SendCall` copies them. */
export function connectionCodecs(): CallCodecs {
  return { request: createRequestCodec(), response: createResponseCodec({ borrowScalars: true }) };
}

/**
 * Connects to a server: to an address (`host:port`, `http://host:port`, `https://host:port` or `unix:/path`), or over
 * a stream that is there already, without a network.
 *
 * @throws DmEnvRpcError of origin `connection`: UNAVAILABLE when nobody answers there, DEADLINE_EXCEEDED after
 * `connectTimeoutMs`; of origin `client`: CANCELLED by the signal, INVALID_ARGUMENT for a bad address.
 */
export async function connect(
  target: string | StreamTarget,
  options: ConnectOptions = {},
): Promise<Connection> {
  const {
    maxInFlight = defaultMaxInFlight,
    maxWaiting = defaultMaxWaiting,
    reconnect,
    codecs = connectionCodecs(),
    ...open
  } = options;
  const limits = { maxInFlight, maxWaiting };
  if (typeof target !== "string") {
    const { stream, name = "the server", reopen } = target;
    return new ConnectionState(
      { stream },
      {
        peer: name,
        limits,
        reconnect,
        reopen: reopen && (async (signal) => ({ stream: await reopen(signal) })),
      },
    );
  }
  const openAnother = async (signal: AbortSignal | undefined) => {
    const stream = await openStream(target, { ...open, codecs, signal });
    return { stream, address: stream.address, release: () => stream.close() };
  };
  const opened = await openAnother(options.signal);
  return new ConnectionState(opened, {
    peer: opened.address,
    limits,
    reconnect,
    reopen: openAnother,
  });
}
