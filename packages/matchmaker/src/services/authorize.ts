// SPDX-License-Identifier: Apache-2.0
import {
  Code,
  ConnectError,
  createContextKey,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { type Peer, peerOfCall } from "@dm-env-rpc/transport";

/**
 * What a caller may do: an `agent` asks for matches; a `server` registers itself; an `operator` sees and changes
 * everything, and may do what a server may.
 */
export type CallerRole = "agent" | "server" | "operator";

/**
 * Says what a caller may do, by the metadata of its call and its certificate (DER, for `new X509Certificate`).
 * Undefined, or what is thrown, refuses it: UNAUTHENTICATED, and what was thrown is not told.
 */
export type AuthorizeCall = (
  peer: Peer,
) => readonly CallerRole[] | undefined | Promise<readonly CallerRole[] | undefined>;

const callerRoles = createContextKey<readonly CallerRole[]>(["agent", "server", "operator"], {
  description: "the roles of the caller",
});

/** Returns true if the caller of a method is an operator; where nobody is asked who they are, everybody is. */
export function isOperator({ values }: Pick<HandlerContext, "values">): boolean {
  return values.get(callerRoles).includes("operator");
}

/** Lets only callers of one of some roles through to a service. */
export function requireCallerRole(
  authorize: AuthorizeCall | undefined,
  accepted: readonly CallerRole[],
): Interceptor {
  const role = accepted.map((each) => `"${each}"`).join(" or ");
  return (next) => async (request) => {
    if (authorize === undefined) return await next(request);
    const metadata = new Map(request.header);
    const roles = await rolesOf(authorize, { ...peerOfCall(request.contextValues), metadata });
    if (roles !== undefined && accepted.some((each) => roles.includes(each))) {
      request.contextValues.set(callerRoles, roles);
      return await next(request);
    }
    const { name } = request.service;
    throw roles === undefined
      ? new ConnectError(
          `the matchmaker does not know you; ${name} takes a caller of the role ${role}: send its token as metadata "authorization: Bearer TOKEN", or show its certificate`,
          Code.Unauthenticated,
        )
      : new ConnectError(
          `${name} takes a caller of the role ${role}, and yours is ${roles.map((own) => `"${own}"`).join(" and ") || "none"}`,
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
