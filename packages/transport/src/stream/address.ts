// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** A parsed address of a server. */
export interface Address {
  /** Carrier of the streams: gRPC over HTTP/2, or a WebSocket. */
  readonly carrier: "http2" | "websocket";
  readonly secure: boolean;
  /** Host without brackets; `localhost` for a Unix domain socket. */
  readonly host: string;
  /** 0 for a Unix domain socket. */
  readonly port: number;
  /** File of a Unix domain socket; undefined for all other addresses. */
  readonly path: string | undefined;
  /** `host:port`, with an IPv6 address in brackets; `unix:/path` for a Unix domain socket. */
  readonly authority: string;
  /** `http://host:port`, or with the scheme `https`, `ws` or `wss`; `unix:/path` for a Unix domain socket. */
  readonly url: string;
}

const expectation =
  'expected "host:port", "unix:/path", "http://host:port", "https://host:port", "ws://host:port" or "wss://host:port"';

const schemes = new Map<string, Pick<Address, "carrier" | "secure">>([
  ["http:", { carrier: "http2", secure: false }],
  ["https:", { carrier: "http2", secure: true }],
  ["ws:", { carrier: "websocket", secure: false }],
  ["wss:", { carrier: "websocket", secure: true }],
]);

/**
 * Parses an address: `host:port`, `[::1]:port`, `http://…`, `https://…`, `ws://…` or `wss://…`
 * (with the default ports 80 and 443), or a Unix domain socket as gRPC writes it: `unix:path`,
 * `unix:/path` or `unix:///path`.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the address has another form.
 */
export function parseAddress(address: string): Address {
  const text = address.trim();
  const path = socketPath(text);
  if (path !== undefined) {
    if (path === "" || path.startsWith("//")) {
      throw badAddress(address);
    }
    const url = `unix:${path}`;
    return {
      carrier: "http2",
      secure: false,
      host: "localhost",
      port: 0,
      path,
      authority: url,
      url,
    };
  }
  const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  let url: URL;
  try {
    url = new URL(hasScheme ? text : `http://${text}`);
  } catch {
    throw badAddress(address);
  }
  const scheme = schemes.get(url.protocol);
  const isBare = url.pathname === "/" && url.search === "" && url.hash === "" && !url.username;
  if (scheme === undefined || url.hostname === "" || !isBare) {
    throw badAddress(address);
  }
  // `URL` drops the default port of a scheme, so "host:80" is checked in the original text.
  if (!hasScheme && !/:\d+\/?$/.test(text)) {
    throw badAddress(address);
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? (scheme.secure ? 443 : 80) : Number(url.port);
  const authority = joinHostPort(host, port);
  return { ...scheme, host, port, path, authority, url: `${url.protocol}//${authority}` };
}

/** Returns the path (possibly empty) in the address of a Unix domain socket; undefined for all other addresses. */
export function socketPath(address: string): string | undefined {
  const [, path] = /^unix:(?:\/\/(?=\/(?!\/)))?(.*)$/.exec(address) ?? [];
  return path;
}

/** Returns the URL for requests. Over a Unix domain socket, it is `http://localhost`, as in other gRPC clients. */
export function requestUrl({ path, url }: Address): string {
  return path === undefined ? url : "http://localhost";
}

/** Returns `host:port`, with an IPv6 host in brackets. */
export function joinHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Returns true if only this machine can reach a server on `host`: `localhost`, 127.0.0.0/8, ::1 or a Unix domain
 * socket. Other names are not resolved and count as reachable from other machines.
 */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  return (
    socketPath(name) !== undefined ||
    name === "localhost" ||
    name === "::1" ||
    name === "0:0:0:0:0:0:0:1" ||
    /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name)
  );
}

function badAddress(address: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `${expectation}, received ${JSON.stringify(address)}`,
    {
      origin: "client",
    },
  );
}
