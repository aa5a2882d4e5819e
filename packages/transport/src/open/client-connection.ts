// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsOptions } from "node:tls";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { maxTimeoutMs } from "../internal/time-source.ts";
import { maxSessionMemoryMb, windowBytes } from "../limits/limits.ts";
import { type Address, requestUrl } from "../stream/address.ts";
import { connectFailure, goneAway, lostConnection } from "./connect-failure.ts";

/** A connection that is asked to close has this long to say goodbye. */
const goodbyeMs = 1_000;

/** Certificates of a client; all are PEM. */
export interface OpenTls {
  /** Whom the server's certificate is checked against; the default is the system's store. */
  readonly ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
  /** The client's own certificate and its key, for servers that ask for one (mTLS). */
  readonly cert?: string | Uint8Array | undefined;
  readonly key?: string | Uint8Array | undefined;
  readonly passphrase?: string | undefined;
  /** The name to expect in the server's certificate, where it is not the host of the address. */
  readonly serverName?: string | undefined;
  /** False takes any certificate; for tests only. Default true. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** How a connection is made and kept. */
export interface ConnectionOptions {
  readonly tls?: OpenTls | undefined;
  /** How long connecting may take, to the first word of the server. Default 10,000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Pings the server this often and gives the connection up when one is unanswered for as
   * long. Default 0: off. Servers of other makes close connections that ping too often;
   * below 300,000 ask the server's operator first.
   */
  readonly pingIntervalMs?: number | undefined;
  /** Gives up connecting. */
  readonly signal?: AbortSignal | undefined;
}

/** An HTTP/2 connection to a server. */
export interface ClientConnection {
  readonly session: ClientHttp2Session;
  /** Why the connection is gone, or about to go, once it is. */
  failure(): Error | undefined;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  /** Closes the connection once its streams have ended. */
  close(): void;
  /** Closes the connection now. */
  destroy(): void;
}

/**
 * Connects, and waits for the server's first word: what listens there speaks HTTP/2.
 *
 * @throws DmEnvRpcError that says what is wrong and what to do.
 */
export async function openConnection(
  address: Address,
  options: ConnectionOptions,
): Promise<ClientConnection> {
  const { signal } = options;
  const connectTimeoutMs = options.connectTimeoutMs ?? 10_000;
  throwIfAborted(signal, address);
  const socket = openSocket(address, options.tls ?? {});
  const session = connectHttp2(requestUrl(address), {
    createConnection: () => socket,
    settings: { initialWindowSize: windowBytes, enablePush: false },
    maxSessionMemory: maxSessionMemoryMb,
  });
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // node:http2 ends its session on an error of TLS, and then waits for a socket that stays open.
  socket.on("error", () => socket.destroy());
  let failure: Error | undefined;
  session.on("goaway", (code, _lastStreamId, data) => {
    if (code !== constants.NGHTTP2_NO_ERROR) {
      failure ??= goneAway(address, code, data);
    }
  });
  session.on("error", (error: Error) => {
    failure ??= lostConnection(address, error);
  });

  await new Promise<void>((resolve, reject) => {
    const giveUp = (error: DmEnvRpcError): void => {
      failure = error;
      session.destroy();
      socket.destroy();
      settle(() => reject(error));
    };
    const onAbort = (): void => giveUp(abortedError(signal, address));
    const onFailure = (error?: Error): void => {
      const known = isDmEnvRpcError(failure) && error === undefined ? failure : undefined;
      giveUp(known ?? connectFailure(address, error));
    };
    const timer = setTimeout(
      () =>
        giveUp(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `${address.authority} did not answer within ${connectTimeoutMs} ms; check the address, or raise connectTimeoutMs`,
            { origin: "connection" },
          ),
        ),
      Math.min(connectTimeoutMs, maxTimeoutMs),
    );
    const settle = (conclude: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("error", onFailure);
      session.off("error", onFailure);
      session.off("close", onFailure);
      session.off("remoteSettings", onReady);
      conclude();
    };
    const onReady = (): void => settle(resolve);
    socket.once("error", onFailure);
    session.once("error", onFailure);
    session.once("close", onFailure);
    session.once("remoteSettings", onReady);
    signal?.addEventListener("abort", onAbort, { once: true });
  });

  session.setLocalWindowSize(windowBytes);
  keepAlive(session, address, options.pingIntervalMs ?? 0, (error) => {
    failure ??= error;
  });
  return {
    session,
    closed,
    failure: () => failure ?? (socket.destroyed ? lostConnection(address) : undefined),
    close: () => {
      session.close();
      setTimeout(() => {
        if (session.destroyed) {
          socket.destroy();
        }
      }, goodbyeMs).unref();
    },
    destroy: () => {
      session.destroy();
      setTimeout(() => socket.destroy(), goodbyeMs).unref();
    },
  };
}

function openSocket(address: Address, tls: OpenTls): Socket {
  const { host, port, path } = address;
  if (path !== undefined) {
    return connectTcp({ path });
  }
  if (!address.secure) {
    return connectTcp({ host, port });
  }
  return connectTls({ host, port, ALPNProtocols: ["h2"], ...tlsOptions(address, tls) });
}

/** The options of node:tls for a connection. */
export function tlsOptions({ host }: Address, tls: OpenTls): TlsOptions {
  const serverName = tls.serverName ?? (isIP(host) === 0 ? host : undefined);
  return {
    ...(serverName === undefined ? {} : { servername: serverName }),
    ...(tls.ca === undefined ? {} : { ca: [tls.ca].flat().map(asPem) }),
    ...(tls.cert === undefined ? {} : { cert: asPem(tls.cert) }),
    ...(tls.key === undefined ? {} : { key: asPem(tls.key) }),
    ...(tls.passphrase === undefined ? {} : { passphrase: tls.passphrase }),
    rejectUnauthorized: tls.rejectUnauthorized ?? true,
  };
}

function keepAlive(
  session: ClientHttp2Session,
  address: Address,
  intervalMs: number,
  onDead: (error: Error) => void,
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
      // The answer may have come while this process was busy: look at the socket first.
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

function throwIfAborted(signal: AbortSignal | undefined, address: Address): void {
  if (signal?.aborted) {
    throw abortedError(signal, address);
  }
}

function abortedError(signal: AbortSignal | undefined, address: Address): DmEnvRpcError {
  return new DmEnvRpcError("CANCELLED", `connecting to ${address.authority} was aborted`, {
    origin: "client",
    cause: signal?.reason,
  });
}

function asPem(pem: string | Uint8Array): string | Buffer {
  return typeof pem === "string" ? pem : Buffer.from(pem);
}
