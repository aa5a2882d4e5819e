// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Where a server is, taken apart. */
export interface Address {
  /** What carries streams there: gRPC over HTTP/2, or a WebSocket. */
  readonly carrier: "http2" | "websocket";
  readonly secure: boolean;
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host:port`, an IPv6 address in brackets. */
  readonly authority: string;
  /** `http://host:port`, or with `https`, `ws` or `wss`. */
  readonly url: string;
}

const expectation =
  'expected "host:port", "http://host:port", "https://host:port", "ws://host:port" or "wss://host:port"';

const schemes = new Map<string, Pick<Address, "carrier" | "secure">>([
  ["http:", { carrier: "http2", secure: false }],
  ["https:", { carrier: "http2", secure: true }],
  ["ws:", { carrier: "websocket", secure: false }],
  ["wss:", { carrier: "websocket", secure: true }],
]);

/**
 * Takes an address apart: `host:port`, `[::1]:port`, `http://…`, `https://…`, `ws://…` or `wss://…`
 * (with the ports 80 and 443 where none is named).
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT where it is none of these.
 */
export function parseAddress(address: string): Address {
  const text = address.trim();
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
  // `URL` drops a port that is the scheme's own, so "host:80" has to be looked at as it was written.
  if (!hasScheme && !/:\d+\/?$/.test(text)) {
    throw badAddress(address);
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? (scheme.secure ? 443 : 80) : Number(url.port);
  const authority = joinHostPort(host, port);
  return { ...scheme, host, port, authority, url: `${url.protocol}//${authority}` };
}

/** `host:port`, an IPv6 host in brackets. */
export function joinHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Whether only this machine can reach what listens on `host`: `localhost`,
 * 127.0.0.0/8 or ::1. Other names are not looked up, and are not loopback.
 */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  return (
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
