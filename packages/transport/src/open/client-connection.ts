// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsOptions } from "node:tls";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { maxSessionMemoryMb, windowBytes } from "../limits/limits.ts";
import { type Address, requestUrl } from "../stream/address.ts";
import { checkedCertificates } from "../stream/certificates.ts";
import { checkedHost } from "./checked-host.ts";
import { connectFailure, goneAway, lostConnection } from "./connect-failure.ts";
import { connecting } from "./connecting.ts";
import { type ConnectionOptions, defaultPingIntervalMs, type OpenTls } from "./open-options.ts";

/**
 * Silence after which the kernel probes the server, in ms; after ten more seconds without an answer the
 * connection is lost. Servers do not see these probes, so they do not refuse them as they refuse frequent pings.
 */
export const probeAfterMs = 20_000;

/** Time for a connection to close gracefully. */
const goodbyeMs = 1_000;

/** An HTTP/2 connection to a server. */
export interface ClientConnection {
  readonly session: ClientHttp2Session;
  /** Returns the error once the connection is lost or closing. */
  failure(): Error | undefined;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  /** Closes the connection once its streams have ended. */
  close(): void;
  /** Closes the connection; resolves when the socket is closed. */
  disconnect(): Promise<void>;
}

/**
 * Connects, and waits for the server's first HTTP/2 frame.
 *
 * @throws DmEnvRpcError with the cause and the remedy.
 */
export function openConnection(
  address: Address,
  options: ConnectionOptions,
): Promise<ClientConnection> {
  return connecting(address, options, ({ succeed, fail }) => {
    const socket = openSocket(address, options);
    socket.setKeepAlive(true, probeAfterMs);
    const session = connectHttp2(requestUrl(address), {
      createConnection: () => socket,
      settings: { initialWindowSize: windowBytes, enablePush: false },
      maxSessionMemory: maxSessionMemoryMb,
    });
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    let failure: DmEnvRpcError | undefined;
    const onFailure = (error?: Error): void =>
      fail((error === undefined ? failure : undefined) ?? connectFailure(address, error));
    socket.once("error", onFailure);
    // After a TLS error, node:http2 ends its session but leaves the socket open.
    socket.on("error", () => socket.destroy());
    session.once("error", onFailure);
    session.on("error", (error: Error) => {
      failure ??= lostConnection(address, error);
    });
    session.on("goaway", (code, _lastStreamId, data) => {
      if (code !== constants.NGHTTP2_NO_ERROR) {
        failure ??= goneAway(address, code, data);
      }
    });
    session.once("close", onFailure);
    session.once("remoteSettings", () => {
      session.setLocalWindowSize(windowBytes);
      keepAlive(session, address, options.pingIntervalMs ?? defaultPingIntervalMs, (error) => {
        failure ??= error;
      });
      succeed({
        session,
        closed,
        failure: () => failure ?? (socket.destroyed ? lostConnection(address) : undefined),
        close,
        disconnect: () => {
          close();
          return closed;
        },
      });
    });
    const close = (): void => {
      session.close();
      setTimeout(() => {
        if (session.destroyed) {
          socket.destroy();
        }
      }, goodbyeMs).unref();
    };
    return () => {
      session.destroy();
      socket.destroy();
    };
  });
}

function openSocket(address: Address, { tls = {}, checkIp }: ConnectionOptions): Socket {
  const { host, port, path } = address;
  if (path !== undefined) {
    return connectTcp({ path });
  }
  const target = { host, port, ...checkedHost(address, checkIp) };
  return address.secure
    ? connectTls({ ...target, ALPNProtocols: ["h2"], ...tlsOptions(address, tls) })
    : connectTcp(target);
}

/**
 * Returns the options of node:tls for a connection.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a malformed certificate or key.
 */
export function tlsOptions({ host }: Address, tls: OpenTls): TlsOptions {
  const serverName = tls.serverName ?? (isIP(host) === 0 ? host : undefined);
  return {
    ...(serverName === undefined ? {} : { servername: serverName }),
    ...checkedCertificates(tls),
    rejectUnauthorized: tls.rejectUnauthorized ?? true,
  };
}

function keepAlive(
  session: ClientHttp2Session,
  address: Address,
  intervalMs: number,
  onDead: (error: DmEnvRpcError) => void,
): void {
  if (intervalMs <= 0) {
    return;
  }
  let pinged = false;
  const giveUpUnlessAnswered = (): void => {
    if (pinged && !session.destroyed) {
      onDead(
        new DmEnvRpcError(
          "UNAVAILABLE",
          `${address.authority} did not answer a ping within ${intervalMs} ms`,
          { origin: "connection" },
        ),
      );
      session.destroy();
    }
  };
  const timer = setInterval(() => {
    if (pinged) {
      // The answer may have arrived while this process was busy: read the socket first.
      setImmediate(() => setImmediate(giveUpUnlessAnswered));
    } else if (!session.closed && !session.destroyed) {
      pinged = true;
      session.ping((error) => {
        pinged = error !== null;
      });
    }
  }, intervalMs).unref();
  session.once("close", () => clearInterval(timer));
}
