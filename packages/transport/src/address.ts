// SPDX-License-Identifier: Apache-2.0
import { isIPv6 } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Where a server is, taken apart. */
export interface Address {
  readonly secure: boolean;
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host:port`, an IPv6 address in brackets. */
  readonly authority: string;
  /** `http://host:port` or `https://host:port`. */
  readonly url: string;
}

const expectation = 'expected "host:port", "http://host:port" or "https://host:port"';

/**
 * Takes an address apart: `host:port`, `[::1]:port`, `http://…` or `https://…`
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
  const secure = url.protocol === "https:";
  const isBare = url.pathname === "/" && url.search === "" && url.hash === "" && !url.username;
  if ((!secure && url.protocol !== "http:") || url.hostname === "" || !isBare) {
    throw badAddress(address);
  }
  // `URL` drops a port that is the scheme's own, so "host:80" has to be looked at as it was written.
  if (!hasScheme && !/:\d+\/?$/.test(text)) {
    throw badAddress(address);
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const authority = joinHostPort(host, port);
  return { secure, host, port, authority, url: `${secure ? "https" : "http"}://${authority}` };
}

/** `host:port`, an IPv6 host in brackets. */
export function joinHostPort(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
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
