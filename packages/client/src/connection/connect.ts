// SPDX-License-Identifier: Apache-2.0
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import {
  type CallCodecs,
  type ClientStream,
  type OpenOptions,
  openStream,
} from "@dm-env-rpc/transport";
import { traceMetadata } from "@dm-env-rpc/transport/internal/tracing";
import type { Connection } from "../environment/environment.ts";
import { ConnectionState } from "./connection-state.ts";
import type { ReconnectOptions } from "./reconnect.ts";

/** Default of `maxInFlight`. */
export const defaultMaxInFlight = 256;

/** Default of `maxWaiting`. */
export const defaultMaxWaiting = 65_536;

/** Options of `connect`, including those of the transport: TLS, metadata, pings, limits. */
export interface ConnectOptions extends OpenOptions {
  /** Maximum number of requests in flight; further requests wait. Default 256. */
  readonly maxInFlight?: number | undefined;
  /**
   * Maximum number of requests that wait to be sent; one more rejects with RESOURCE_EXHAUSTED. Default
   * 65,536.
   */
  readonly maxWaiting?: number | undefined;
  /**
   * Reconnects a lost connection and joins the same world again. Default: off. Requests that were
   * open when the connection was lost reject once the fate of the world is known (`worldFate`). If no
   * step or reset was open, the next step rejects.
   */
  readonly reconnect?: ReconnectOptions | undefined;
}

/** An open stream: a side of an in-memory pair, or a stream opened with the transport. */
export interface StreamTarget {
  readonly stream: ClientStream;
  /** Name of the server in errors. Default "the server". */
  readonly name?: string | undefined;
  /** Opens another stream to the same server; required for `reconnect`. */
  readonly reopen?: ((signal: AbortSignal) => Promise<ClientStream>) | undefined;
}

/**
 * Creates the codecs of one or several connections. Responses contain borrowed scalars:
 * environments read each number at once, and `SendCall` copies it.
 */
export function connectionCodecs(): CallCodecs {
  return { request: createRequestCodec(), response: createResponseCodec({ borrowScalars: true }) };
}

/**
 * Connects to a server: to an address (`host:port`, `http://host:port`, `https://host:port`,
 * `unix:/path`, `ws://…` or `wss://…`), or over an open stream. In Node, the call continues the active
 * trace of OpenTelemetry, if there is one.
 *
 * @throws DmEnvRpcError of origin `connection`: UNAVAILABLE if no server answers, DEADLINE_EXCEEDED
 *   after `connectTimeoutMs`; of origin `client`: CANCELLED by the signal, INVALID_ARGUMENT for a
 *   bad address.
 *
 * @example
 * const connection = await connect("localhost:8980");
 * const worldName = await connection.createWorld({ settings: { seed: 7n } });
 * const environment = await connection.join(worldName);
 * let step = await environment.reset();
 * while (!step.last()) {
 *   step = await environment.step({ move: 1 });
 * }
 * await connection.close();
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
  const metadata = new Map(Object.entries(traceMetadata()));
  const given = open.metadata ?? {};
  for (const [name, value] of given instanceof Map ? given : Object.entries(given)) {
    metadata.set(name, value);
  }
  const openAnother = async (signal: AbortSignal | undefined) => {
    const stream = await openStream(target, { ...open, metadata, codecs, signal });
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
