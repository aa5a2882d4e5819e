// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import type { OriginCheck } from "./cors.ts";

/**
 * Decides which pages may use a server: pages of the server's own origin, and pages of `allowed` origins. A
 * request without `Origin` does not come from a page and is allowed.
 *
 * A page's origin counts as the server's own under two conditions. It equals the host of the request, and that host is
 * an IP address, is `localhost`, or has its name proven by TLS. Without the second condition, any site could point its
 * own DNS name at this server, and its pages would have the server's origin (DNS rebinding).
 *
 * @param allowed Origins such as `https://play.example.org`, or `*` for every page.
 * @param isSecure True if the server uses TLS.
 */
export function originCheck(allowed: readonly string[], isSecure: boolean): OriginCheck {
  const origins = new Set(allowed.map((origin) => (origin === "*" ? "*" : originOf(origin))));
  return (request: IncomingHttpHeaders) => {
    const { origin } = request;
    const host = request.host ?? request[":authority"];
    if (origin === undefined || origins.has("*") || origins.has(origin)) {
      return true;
    }
    if (host === undefined || !URL.canParse(origin)) {
      return false;
    }
    if (origin !== `${isSecure ? "https" : "http"}://${host}`) {
      return false;
    }
    const { hostname } = new URL(origin);
    return isSecure || hostname === "localhost" || isIP(hostname.replace(/^\[|\]$/g, "")) !== 0;
  };
}

/** @throws RangeError if the text is not an origin. */
function originOf(origin: string): string {
  if (URL.canParse(origin)) {
    const url = new URL(origin);
    if (url.origin !== "null" && url.href === `${url.origin}/`) {
      return url.origin;
    }
  }
  throw new RangeError(
    `an allowed origin is malformed: expected "https://host", "http://host:port" or "*", received ${JSON.stringify(origin)}; leave out the path`,
  );
}
