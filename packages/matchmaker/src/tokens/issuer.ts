// SPDX-License-Identifier: Apache-2.0
import { createPrivateKey, sign } from "node:crypto";
import type { Part } from "../model/model.ts";
import { algorithm, type SigningKey } from "./keys.ts";
import { issuerName } from "./verifier.ts";

/** Contents of an agent's token. */
export interface JoinGrant {
  readonly ticketId: string;
  /** Number of agents of the ticket; each has its own token. */
  readonly partySize: number;
  readonly matchId: string;
  /** The agent's part in the match. */
  readonly part: Part;
  /** The span that assigned the seat; undefined if it is not traced. */
  readonly traceparent?: string | undefined;
  readonly serverId: string;
  /** The address that the server registered with. */
  readonly address: string;
  readonly worldName: string;
  /** Unique, so that each seat is taken once. */
  readonly seatId: string;
  readonly nowMs: number;
  readonly expiresMs: number;
}

/** Signs tokens. */
export interface TokenIssuer {
  /** Signs a token for one agent, one world and one ticket. */
  joinToken(grant: JoinGrant): Promise<string>;
  /** Signs a token with which the matchmaker itself calls one server. */
  operatorToken(
    server: { readonly id: string; readonly address: string },
    nowMs: number,
    expiresMs: number,
  ): Promise<string>;
  /** The public keys that verify the tokens, as a JWK set in JSON. */
  readonly jwks: string;
}

/**
 * Creates an issuer.
 *
 * @param keys Signing keys, read for each token: the first one signs, all are published.
 * @throws Error if the first key cannot sign.
 */
export async function tokenIssuer(keys: () => readonly SigningKey[]): Promise<TokenIssuer> {
  const signers = new WeakMap<SigningKey, Signer>();
  const signed = async (claims: Claims): Promise<string> => {
    const [key] = keys();
    if (key === undefined) {
      throw new Error("signing keys: expected at least one key, received none");
    }
    const signer = signers.get(key) ?? signerOf(key);
    signers.set(key, signer);
    return await signer(claims);
  };
  await signed({});
  return {
    joinToken({ ticketId, partySize, matchId, part, serverId, address, ...grant }) {
      const { worldName, seatId, traceparent, ...times } = grant;
      return signed({
        role: "agent",
        world: worldName,
        address,
        match: matchId,
        part,
        ...(partySize === 1 ? {} : { party: partySize }),
        ...(traceparent === undefined ? {} : { traceparent }),
        iss: issuerName,
        sub: ticketId,
        aud: serverId,
        jti: seatId,
        iat: seconds(times.nowMs),
        exp: seconds(times.expiresMs),
      });
    },
    operatorToken: ({ id, address }, nowMs, expiresMs) =>
      signed({
        role: "operator",
        address,
        iss: issuerName,
        sub: "matchmaker",
        aud: id,
        iat: seconds(nowMs),
        exp: seconds(expiresMs),
      }),
    get jwks() {
      return JSON.stringify({ keys: keys().map(({ d: _private, ...publicKey }) => publicKey) });
    },
  };
}

/** Claims of a token. */
type Claims = Readonly<Record<string, unknown>>;

/** Signs claims with one key, as a compact JWS. */
type Signer = (claims: Claims) => Promise<string>;

/**
 * Returns the signer of a key. It signs in the thread pool of node:crypto; WebCrypto would occupy the
 * main thread four times as long.
 *
 * @throws Error if the key cannot sign.
 */
function signerOf({ kid, kty, crv, x, d }: SigningKey): Signer {
  if (kty !== "OKP" || crv !== "Ed25519") {
    throw unfit(`${kty} ${crv}`);
  }
  if (x === undefined || d === undefined) {
    throw unfit(`one without its ${d === undefined ? "private" : "public"} part`);
  }
  const privateKey = createPrivateKey({ key: { kty, crv, x, d }, format: "jwk" });
  const header = encoded({ alg: algorithm, ...(kid === undefined ? {} : { kid }) });
  return (claims) =>
    new Promise((resolve, reject) => {
      const input = `${header}.${encoded(claims)}`;
      sign(null, Buffer.from(input), privateKey, (error, signature) => {
        if (error === null) {
          resolve(`${input}.${signature.toString("base64url")}`);
        } else {
          reject(error);
        }
      });
    });
}

function unfit(received: string): Error {
  return new Error(
    `signing key: expected a private JWK of Ed25519, received ${received}; generateSigningKey makes one`,
  );
}

function encoded(part: Claims): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}

/** Converts to seconds, rounded down so that a token never outlives its seat. */
function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
