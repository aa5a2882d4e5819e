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
 * Role of a caller: an `agent` requests matches; a `server` registers itself; an `operator` may call
 * every service, for all tickets, servers and profiles.
 */
export type CallerRole = "agent" | "server" | "operator";

/** A caller with its roles. */
export interface Caller {
  readonly roles: readonly CallerRole[];
  /**
   * Identifies the caller: a ticket is visible only to the caller that created it. Default: callers
   * are not distinguished.
   */
  readonly identity?: string | undefined;
  /** Name of the caller in audit events. Default: `identity`, else the caller's network address. */
  readonly name?: string | undefined;
}

/**
 * Returns the roles and identity of a caller from the metadata of its call and its certificate (DER,
 * for `new X509Certificate`). If it returns undefined or throws, the call is refused with
 * UNAUTHENTICATED; the caller does not receive the error.
 */
export type AuthorizeCall = (peer: Peer) => Answer | Promise<Answer>;

type Answer = readonly CallerRole[] | Caller | undefined;

const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the caller" });

/** Returns the caller of a method; undefined without `authorize`. */
export function callerOf({ values }: Pick<HandlerContext, "values">): Caller | undefined {
  return values.get(callerKey);
}

/** Admits only callers with one of the accepted roles to a service. */
export function requireCallerRole(
  authorize: AuthorizeCall | undefined,
  accepted: readonly CallerRole[],
): Interceptor {
  const role = accepted.map((each) => `"${each}"`).join(" or ");
  return (next) => async (request) => {
    if (authorize === undefined) {
      return await next(request);
    }
    const metadata = new Map(request.header);
    const caller = await identify(authorize, { ...peerOfCall(request.contextValues), metadata });
    const roles = caller?.roles;
    if (roles !== undefined && accepted.some((each) => roles.includes(each))) {
      request.contextValues.set(callerKey, caller);
      return await next(request);
    }
    const { name } = request.service;
    throw roles === undefined
      ? new ConnectError(
          `${name}: expected a caller with the role ${role}, received one that is not authenticated; send a token as metadata "authorization: Bearer TOKEN", or present a certificate`,
          Code.Unauthenticated,
        )
      : new ConnectError(
          `${name}: expected a caller with the role ${role}, received one with the role ${roles.map((own) => `"${own}"`).join(" and ") || "none"}`,
          Code.PermissionDenied,
        );
  };
}

async function identify(authorize: AuthorizeCall, peer: Peer): Promise<Caller | undefined> {
  try {
    const answer = await authorize(peer);
    return answer === undefined || "roles" in answer ? answer : { roles: answer };
  } catch {
    return undefined;
  }
}
