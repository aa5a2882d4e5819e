// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, shorten } from "@dm-env-rpc/transport/internal";
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTPayload, jwtVerify } from "jose";
import type { Part } from "../model/model.ts";
import { algorithm } from "./keys.ts";
import { type EarlierKeys, maxEarlierKeys } from "./public-keys.ts";

/** Claim `iss` of the tokens. It is defined here because `issuer.ts` does not run in pages. */
export const issuerName = "dm-env-rpc-matchmaker";

/** Claims of a verified join token. */
export interface JoinClaims {
  readonly ticketId: string;
  /** Number of agents of the ticket; each has its own token. */
  readonly partySize: number;
  readonly worldName: string;
  /** Unique, so that each seat is taken once. */
  readonly seatId: string;
  readonly matchId: string;
  /** The agent's part in the match. */
  readonly part: Part;
  /** The span that assigned the seat; undefined if it is not traced. */
  readonly traceparent?: string | undefined;
  /** Expiry of the token, on the matchmaker's clock. */
  readonly expiresMs: number;
}

/** Options of a verifier. */
export interface VerifierOptions {
  /** Returns the server's own id: tokens for another server, or for an earlier run of this one, are refused. */
  readonly serverId: () => string;
  /** Returns earlier ids of this run of the server, whose join tokens are valid, too. Default: none. */
  readonly earlierIds?: (() => readonly string[]) | undefined;
  /** The address that the server registered: tokens for another address are refused. */
  readonly address: string;
  /** Returns the public keys, as a JWK set in JSON; called each time, because they may change. */
  readonly jwks: () => string | undefined;
  /**
   * Returns the public keys that were replaced. A join token that they signed is valid for a held seat and, for some
   * time, for other seats. Default: none.
   */
  readonly earlierKeys?: (() => readonly EarlierKeys[]) | undefined;
  /** Returns the matchmaker's time, independent of the machine's own clock. */
  readonly now: () => number;
}

/** Checks tokens that a matchmaker issued. */
export interface TokenVerifier {
  /**
   * Verifies the token of an agent that wants to join a world.
   *
   * @param mayReturn Returns true if an agent that has joined may take its seat again. Its token is then valid even if it has
   *   expired. Default: no agent may.
   * @throws DmEnvRpcError UNAUTHENTICATED without a token, or with a forged or expired token;
   *   PERMISSION_DENIED with a token for another world, server or address, or with an operator's token;
   *   UNAVAILABLE while there are no keys.
   */
  join(
    token: string | undefined,
    worldName: string,
    mayReturn?: (seatId: string) => boolean,
  ): Promise<JoinClaims>;
  /**
   * Verifies the token of an operator.
   *
   * @throws DmEnvRpcError as `join` does, and PERMISSION_DENIED for an agent's token.
   */
  operator(token: string | undefined): Promise<void>;
}

/**
 * Tolerance, in seconds, with which the JWT library accepts expired tokens. `claimsOf` checks the expiry
 * itself, because an expired token is valid for a held seat.
 */
const anyAge = 10 * 365 * 24 * 3_600;

/** Used for an agent whose token has no part, because it is from an earlier release. */
const noPart: Part = { team: "", role: "", data: {} };

/** Terms, besides the current keys, on which a token is valid. */
interface Terms {
  /** Ids of the server for which the token may be. */
  readonly audience: readonly string[];
  readonly earlier: readonly EarlierKeys[];
  readonly mayReturn: (seatId: string) => boolean;
}

type KeySet = ReturnType<typeof createLocalJWKSet>;

/** Creates a verifier. */
export function tokenVerifier({
  serverId,
  earlierIds = () => [],
  address,
  jwks,
  earlierKeys = () => [],
  now,
}: VerifierOptions): TokenVerifier {
  const keySets = new Map<string, KeySet>();
  const keySetOf = (text: string): KeySet => {
    const known = keySets.get(text);
    if (known !== undefined) {
      return known;
    }
    if (keySets.size > maxEarlierKeys) {
      keySets.clear();
    }
    const keys = createLocalJWKSet(parsed(text));
    keySets.set(text, keys);
    return keys;
  };
  const verify = async (
    token: string,
    text: string,
    audience: readonly string[],
  ): Promise<JWTPayload> => {
    const { payload } = await jwtVerify(token, keySetOf(text), {
      algorithms: [algorithm],
      issuer: issuerName,
      audience: [...audience],
      currentDate: new Date(now()),
      clockTolerance: anyAge,
      requiredClaims: ["sub", "exp", "role"],
    });
    return payload;
  };
  /** Verifies a token by the first keys that signed it. */
  const payloadOf = async (
    token: string,
    current: string,
    { audience, earlier, mayReturn }: Terms,
  ): Promise<JWTPayload> => {
    try {
      return await verify(token, current, audience);
    } catch (error) {
      for (const { jwks: text, untilMs } of isOfOtherKeys(error) ? earlier : []) {
        const payload = await verify(token, text, audience).catch((reason: unknown) => {
          if (!isOfOtherKeys(reason)) {
            throw reason;
          }
          return undefined;
        });
        if (payload !== undefined && (now() < untilMs || mayReturn(payload.jti ?? ""))) {
          return payload;
        }
      }
      throw error;
    }
  };

  const claimsOf = async (token: string | undefined, terms: Terms): Promise<JWTPayload> => {
    const text = jwks();
    if (text === undefined) {
      throw new DmEnvRpcError(
        "UNAVAILABLE",
        "this server has not reached its matchmaker yet and cannot check join tokens; try again",
      );
    }
    if (token === undefined || token === "") {
      throw new DmEnvRpcError(
        "UNAUTHENTICATED",
        'expected a join token, received none; ask the matchmaker for an assignment, and send its token as metadata "authorization: Bearer TOKEN" or as the join setting "join_token"',
      );
    }
    try {
      const payload = await payloadOf(token, text, terms);
      const isExpired = (payload.exp ?? 0) * 1_000 <= now();
      if (isExpired && !terms.mayReturn(payload.jti ?? "")) {
        throw new errors.JWTExpired("expired", payload, "exp");
      }
      if (payload["address"] !== address) {
        throw new WrongAddress();
      }
      return payload;
    } catch (error) {
      throw refusal(error, now());
    }
  };

  return {
    async join(token, worldName, mayReturn = () => false) {
      const { sub, jti, exp, role, ...claims } = await claimsOf(token, {
        audience: [serverId(), ...earlierIds()],
        earlier: earlierKeys(),
        mayReturn,
      });
      const { world, match, part, party, traceparent } = claims;
      if (role !== "agent" || jti === undefined || sub === undefined || exp === undefined) {
        throw new DmEnvRpcError(
          "PERMISSION_DENIED",
          `expected an agent's join token, received a token of role "${shorten(String(role))}"`,
        );
      }
      if (world !== worldName) {
        throw new DmEnvRpcError(
          "PERMISSION_DENIED",
          `join token: expected a token for the world "${shorten(worldName)}", received a token for "${shorten(String(world))}"; join the world of the token, or ask for another assignment`,
        );
      }
      return {
        ticketId: sub,
        partySize: typeof party === "number" ? party : 1,
        worldName,
        seatId: jti,
        matchId: typeof match === "string" ? match : "",
        part: { ...noPart, ...(part as Partial<Part> | undefined) },
        ...(typeof traceparent === "string" ? { traceparent } : {}),
        expiresMs: exp * 1_000,
      };
    },
    async operator(token) {
      const { role } = await claimsOf(token, {
        audience: [serverId()],
        earlier: [],
        mayReturn: () => false,
      });
      if (role === "operator") {
        return;
      }
      throw new DmEnvRpcError(
        "PERMISSION_DENIED",
        `expected a token of role "operator", received one of role "${shorten(String(role))}"`,
      );
    },
  };
}

/**
 * Thrown for a token with another address: this server's id was registered elsewhere, or the
 * assignment is from an earlier registration.
 */
class WrongAddress extends Error {}

/** Returns true for the error of a token that none of the keys signed. */
function isOfOtherKeys(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWSSignatureVerificationFailed
  );
}

function refusal(error: unknown, nowMs: number): DmEnvRpcError {
  if (error instanceof WrongAddress) {
    return new DmEnvRpcError(
      "PERMISSION_DENIED",
      "expected a token for the address that this server registered, received a token for another address; ask for another assignment",
    );
  }
  if (error instanceof errors.JWTExpired) {
    const expired = new Date(Number(error.payload.exp) * 1_000).toISOString();
    return new DmEnvRpcError(
      "UNAUTHENTICATED",
      `this join token expired at ${expired}, and by the matchmaker's time it is ${new Date(nowMs).toISOString()}; ask for another assignment`,
    );
  }
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === "aud") {
    return new DmEnvRpcError(
      "PERMISSION_DENIED",
      "this token is for another server, or for an earlier run of this one; ask for another assignment",
    );
  }
  return new DmEnvRpcError(
    "UNAUTHENTICATED",
    `expected a token that the matchmaker issued, received another one: ${messageOf(error)}; ask for an assignment`,
  );
}

function parsed(jwks: string): JSONWebKeySet {
  return JSON.parse(jwks) as JSONWebKeySet;
}
