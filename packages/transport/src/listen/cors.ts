// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import { cors } from "@connectrpc/connect";

/** Time for which a browser may cache the answer to a preflight request, in seconds. */
const maxAgeS = 7_200;

/** Headers that a page may read: those of the protocols, and the time after which to repeat a refused call. */
const exposedHeaders = [...cors.exposedHeaders, "retry-after"].join(", ");

/** Decides whether the page that makes a request may use the server. */
export type OriginCheck = (request: IncomingHttpHeaders) => boolean;

/**
 * Returns the headers that let a page of another origin read a response (CORS); empty if the request is not from a
 * page, or if the page is not allowed.
 */
export function corsHeaders(
  request: IncomingHttpHeaders,
  isAllowed: OriginCheck,
): Readonly<Record<string, string>> {
  const { origin } = request;
  if (origin === undefined || !isAllowed(request)) {
    return {};
  }
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": exposedHeaders,
    vary: "origin",
  };
}

/** Returns the headers that answer a preflight request. */
export function preflightHeaders(
  request: IncomingHttpHeaders,
  isAllowed: OriginCheck,
): Readonly<Record<string, string>> {
  const allowed = corsHeaders(request, isAllowed);
  if (Object.keys(allowed).length === 0) {
    return allowed;
  }
  return {
    ...allowed,
    "access-control-allow-methods": cors.allowedMethods.join(", "),
    // Metadata may have any name, such as `authorization` or a name of the application.
    "access-control-allow-headers":
      request["access-control-request-headers"] ?? cors.allowedHeaders.join(", "),
    "access-control-max-age": String(maxAgeS),
  };
}
