// SPDX-License-Identifier: Apache-2.0
import { importJWK, SignJWT } from "jose";
import { algorithm, type SigningKey } from "./keys.ts";

/** Who issues the tokens, as their `iss` says. */
export const issuerName = "dm-env-rpc-matchmaker";

/** What an agent's token is for. */
export interface JoinGrant {
  readonly ticketId: string;
  readonly serverId: string;
  readonly worldName: string;
  /** Unique: a seat is taken once. */
  readonly seatId: string;
  readonly nowMs: number;
  readonly expiresMs: number;
}

/** Signs tokens. */
export interface TokenIssuer {
  /** For one agent, one world and one ticket. */
  joinToken(grant: JoinGrant): Promise<string>;
  /** For the matchmaker itself, to one server. */
  operatorToken(serverId: string, nowMs: number, expiresMs: number): Promise<string>;
  /** The public keys that check them, as a JWK set in JSON. */
  readonly jwks: string;
}

/**
 * Makes an issuer.
 *
 * @throws Error when the key is none that can sign.
 */
export async function tokenIssuer(key: SigningKey): Promise<TokenIssuer> {
  const signer = await importJWK(key, algorithm);
  const { d: _private, ...publicKey } = key;
  const header = { alg: algorithm, ...(key.kid === undefined ? {} : { kid: key.kid }) };
  return {
    joinToken: ({ ticketId, serverId, worldName, seatId, nowMs, expiresMs }) =>
      new SignJWT({ role: "agent", world: worldName })
        .setProtectedHeader(header)
        .setIssuer(issuerName)
        .setSubject(ticketId)
        .setAudience(serverId)
        .setJti(seatId)
        .setIssuedAt(seconds(nowMs))
        .setExpirationTime(seconds(expiresMs))
        .sign(signer),
    operatorToken: (serverId, nowMs, expiresMs) =>
      new SignJWT({ role: "operator" })
        .setProtectedHeader(header)
        .setIssuer(issuerName)
        .setSubject("matchmaker")
        .setAudience(serverId)
        .setIssuedAt(seconds(nowMs))
        .setExpirationTime(seconds(expiresMs))
        .sign(signer),
    jwks: JSON.stringify({ keys: [publicKey] }),
  };
}

/** Rounded down: a token never outlives the seat that it is for. */
function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
