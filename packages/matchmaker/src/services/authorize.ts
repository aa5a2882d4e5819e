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
 * Role of a caller: an `agent` requests matches; a `server` registers itself; an `operator` sees
 * and changes everything, and has the permissions of a server.
 */
export type CallerRole = "agent" | "server" | "operator";

/** A caller with its roles. */
export interface Caller {
  readonly roles: readonly CallerRole[];
  /**
   * Identifies the caller: only the creator of a ticket can see it. Default: all callers are one.
   */
  readonly identity?: string | undefined;
  /** The caller in audit events. Default: `identity`, else its network address. */
  readonly name?: string | undefined;
}

/**
 * Returns the role and identity of a caller from the metadata of its call and its certificate (DER,
 * for `new X509Certificate`). Undefined or an error refuses it with UNAUTHENTICATED; the caller
 * does not receive the error.
 */
export type AuthorizeCall = (peer: Peer) => Answer | Promise<Answer>;

type Answer = readonly CallerRole[] | Caller | undefined;

const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the caller" });

/** Returns the caller of a method; undefined without `authorize`. */
export function callerOf({ values }: Pick<HandlerContext, "values">): Caller | undefined {
  return values.get(callerKey);
}

/** Admits only callers with one of some roles to a service. */
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
          `the matchmaker does not know you; ${name} takes a caller of the role ${role}: send its token as metadata "authorization: Bearer TOKEN", or show its certificate`,
          Code.Unauthenticated,
        )
      : new ConnectError(
          `${name} takes a caller of the role ${role}, and yours is ${roles.map((own) => `"${own}"`).join(" and ") || "none"}`,
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
