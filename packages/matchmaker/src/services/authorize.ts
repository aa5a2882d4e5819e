// SPDX-License-Identifier: Apache-2.0
import { inspect } from "node:util";
import { Code, ConnectError, createContextKey, type HandlerContext } from "@connectrpc/connect";
import { type Peer, peerOfCall } from "@dm-env-rpc/transport";
import { shorten } from "@dm-env-rpc/transport/internal";

/**
 * Role of a caller: an `agent` requests matches; a `server` registers itself; an `operator` may call
 * every service, for all tickets, servers and profiles.
 */
export type CallerRole = "agent" | "server" | "operator";

/** A caller with its roles. */
export interface Caller {
  readonly roles: readonly CallerRole[];
  /**
   * Identifies the caller: a ticket is visible only to the caller that created it, and a server belongs to the
   * caller that registered it. Default: callers are not distinguished.
   */
  readonly identity?: string | undefined;
  /** Name of the caller in audit events. Default: `identity`, else the caller's network address. */
  readonly name?: string | undefined;
}

/**
 * Returns the roles and identity of a caller from the metadata of its call and its certificate (DER,
 * for `new X509Certificate`). If it returns undefined or another value that is not an answer, or throws, the call is
 * refused with UNAUTHENTICATED; if it takes longer than `authorizeMs`, with DEADLINE_EXCEEDED. Only the event
 * `authorize-failed` has the error.
 */
export type AuthorizeCall = (peer: Peer) => Answer | Promise<Answer>;

type Answer = readonly CallerRole[] | Caller | undefined;

const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the caller" });

/** Returns the caller of a method; undefined without `authorize`. */
export function callerOf({ values }: Pick<HandlerContext, "values">): Caller | undefined {
  return values.get(callerKey);
}

/** Checks the caller of a call, from its headers and its connection. Rejects to refuse the call. */
export type CheckCaller = (
  call: Pick<HandlerContext, "requestHeader" | "service" | "values">,
) => Promise<void>;

/** Creates a check that accepts only callers with one of the accepted roles. */
export function requireCallerRole(
  authorize: AuthorizeCall | undefined,
  accepted: readonly CallerRole[],
): CheckCaller {
  const role = accepted.map((each) => `"${each}"`).join(" or ");
  return async ({ requestHeader, service: { name }, values }) => {
    if (authorize === undefined) {
      return;
    }
    const metadata = new Map(requestHeader);
    const caller = callerFrom(await authorize({ ...peerOfCall(values), metadata }));
    const roles = caller?.roles;
    if (roles !== undefined && accepted.some((each) => roles.includes(each))) {
      values.set(callerKey, caller);
      return;
    }
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

const callerRoles: readonly unknown[] = ["agent", "server", "operator"] satisfies CallerRole[];

function areRoles(value: unknown): value is readonly CallerRole[] {
  return Array.isArray(value) && value.every((each) => callerRoles.includes(each));
}

function isText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}

/**
 * Reads an answer of `authorize`, which may have been written without types.
 *
 * @throws TypeError if it is neither roles, nor a caller, nor undefined.
 */
export function callerFrom(answer: unknown): Caller | undefined {
  if (answer === undefined) {
    return undefined;
  }
  if (areRoles(answer)) {
    return { roles: answer };
  }
  if (typeof answer === "object" && answer !== null && "roles" in answer) {
    const { roles, identity, name }: { roles: unknown; identity?: unknown; name?: unknown } =
      answer;
    if (areRoles(roles) && isText(identity) && isText(name)) {
      return { roles, identity, name };
    }
  }
  throw new TypeError(
    `authorize: expected roles, { roles, identity, name } or undefined, received ${shorten(inspect(answer, { breakLength: Number.POSITIVE_INFINITY }))}; roles are an array of "agent", "server" and "operator", and an identity and a name are strings`,
  );
}
