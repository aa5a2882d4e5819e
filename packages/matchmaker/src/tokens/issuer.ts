// SPDX-License-Identifier: Apache-2.0
import { importJWK, SignJWT } from "jose";
import type { Part } from "../model.ts";
import { algorithm, type SigningKey } from "./keys.ts";

/** Issuer of the tokens, in their claim `iss`. */
export const issuerName = "dm-env-rpc-matchmaker";

/** Contents of an agent's token. */
export interface JoinGrant {
  readonly ticketId: string;
  /** Agents of the ticket, each with a token of its own. */
  readonly partySize: number;
  readonly matchId: string;
  /** Part of the agent. */
  readonly part: Part;
  readonly serverId: string;
  /** The address that the server registered with. */
  readonly address: string;
  readonly worldName: string;
  /** Unique: each seat is taken once. */
  readonly seatId: string;
  readonly nowMs: number;
  readonly expiresMs: number;
}

/** Signs tokens. */
export interface TokenIssuer {
  /** Signs a token for one agent, one world and one ticket. */
  joinToken(grant: JoinGrant): Promise<string>;
  /** Signs a token for the matchmaker itself, for one server. */
  operatorToken(
    server: { readonly id: string; readonly address: string },
    nowMs: number,
    expiresMs: number,
  ): Promise<string>;
  /** The public keys that check them, as a JWK set in JSON. */
  readonly jwks: string;
}

/**
 * Creates an issuer.
 *
 * @param keys Signing keys, read for each token: the first one signs, all are published.
 * @throws Error if the first key cannot sign.
 */
export async function tokenIssuer(keys: () => readonly SigningKey[]): Promise<TokenIssuer> {
  const signers = new WeakMap<SigningKey, ReturnType<typeof importJWK>>();
  const signerOf = async (key: SigningKey) => {
    const signer = signers.get(key) ?? importJWK(key, algorithm);
    signers.set(key, signer);
    return await signer;
  };
  const sign = async (token: SignJWT): Promise<string> => {
    const [key] = keys();
    if (key === undefined) {
      throw new Error("expected a key to sign tokens with, received none");
    }
    const header = { alg: algorithm, ...(key.kid === undefined ? {} : { kid: key.kid }) };
    return await token.setProtectedHeader(header).sign(await signerOf(key));
  };
  await sign(new SignJWT());
  return {
    joinToken({ ticketId, partySize, matchId, part, serverId, address, ...grant }) {
      const { worldName, seatId, ...times } = grant;
      const claims = {
        role: "agent",
        world: worldName,
        address,
        match: matchId,
        part: { ...part },
      };
      return sign(
        new SignJWT(partySize === 1 ? claims : { ...claims, party: partySize })
          .setIssuer(issuerName)
          .setSubject(ticketId)
          .setAudience(serverId)
          .setJti(seatId)
          .setIssuedAt(seconds(times.nowMs))
          .setExpirationTime(seconds(times.expiresMs)),
      );
    },
    operatorToken: ({ id, address }, nowMs, expiresMs) =>
      sign(
        new SignJWT({ role: "operator", address })
          .setIssuer(issuerName)
          .setSubject("matchmaker")
          .setAudience(id)
          .setIssuedAt(seconds(nowMs))
          .setExpirationTime(seconds(expiresMs)),
      ),
    get jwks() {
      return JSON.stringify({ keys: keys().map(({ d: _private, ...publicKey }) => publicKey) });
    },
  };
}

/** Rounded down, so that a token never outlives its seat. */
function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
