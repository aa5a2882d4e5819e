// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { type Peer, peerOfCall } from "@dm-env-rpc/transport";

/**
 * What a caller may do: an `agent` asks for matches; an `operator` registers servers, and
 * sees and changes everything.
 */
export type CallerRole = "agent" | "operator";

/**
 * Says what a caller may do, by the metadata of its call and its certificate (DER, for `new X509Certificate`).
 * Undefined, or what is thrown, refuses it: UNAUTHENTICATED, and what was thrown is not told.
 */
export type AuthorizeCall = (
  peer: Peer,
) => readonly CallerRole[] | undefined | Promise<readonly CallerRole[] | undefined>;

/** Lets only callers of a role through to a service. */
export function requireCallerRole(
  authorize: AuthorizeCall | undefined,
  role: CallerRole,
): Interceptor {
  return (next) => async (request) => {
    if (authorize === undefined) return await next(request);
    const metadata = new Map(request.header);
    const roles = await rolesOf(authorize, { ...peerOfCall(request.contextValues), metadata });
    if (roles?.includes(role) === true) return await next(request);
    const { name } = request.service;
    throw roles === undefined
      ? new ConnectError(
          `the matchmaker does not know you; ${name} takes a caller of the role "${role}": send its token as metadata "authorization: Bearer TOKEN", or show its certificate`,
          Code.Unauthenticated,
        )
      : new ConnectError(
          `${name} takes a caller of the role "${role}", and yours is ${roles.map((own) => `"${own}"`).join(" and ") || "none"}`,
          Code.PermissionDenied,
        );
  };
}

async function rolesOf(
  authorize: AuthorizeCall,
  peer: Peer,
): Promise<readonly CallerRole[] | undefined> {
  try {
    return await authorize(peer);
  } catch {
    return undefined;
  }
}
