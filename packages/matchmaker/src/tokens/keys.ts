// SPDX-License-Identifier: Apache-2.0
import { exportJWK, generateKeyPair, importPKCS8, type JWK } from "jose";
import type { Store } from "../store/store.ts";

/** Ed25519. */
export const algorithm = "EdDSA";

const secretId = "signing-key";

/** A key that signs tokens, as a private JWK. */
export type SigningKey = JWK;

/** A new key from the machine's entropy. */
export async function generateSigningKey(): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair(algorithm, { crv: "Ed25519", extractable: true });
  return named(await exportJWK(privateKey));
}

/**
 * The key in a PEM file of PKCS #8, as `openssl genpkey -algorithm ed25519` writes it.
 *
 * @throws Error when it is none.
 */
export async function signingKeyFromPem(pem: string): Promise<SigningKey> {
  try {
    return named(await exportJWK(await importPKCS8(pem, algorithm, { extractable: true })));
  } catch (error) {
    throw new Error(
      'expected an Ed25519 private key as PEM (PKCS #8), received something else; make one with "openssl genpkey -algorithm ed25519"',
      { cause: error },
    );
  }
}

/**
 * The key that all matchmakers of a store sign with: made by the first that asks, kept in
 * the store. Whoever can read the store can sign; give keys of your own where that is too much.
 */
export async function sharedSigningKey(store: Store): Promise<SigningKey> {
  for (;;) {
    const [entry] = await store.read([{ kind: "secret", id: secretId }]);
    if (entry?.kind === "secret" && entry.value !== undefined) return JSON.parse(entry.value.value);
    const key = await generateSigningKey();
    const value = { id: secretId, value: JSON.stringify(key) };
    const made = await store.commit([{ kind: "secret", id: secretId, version: 0, value }]);
    if (made.ok) return key;
  }
}

/** The key's id is a part of its public half: the same in every process. */
function named(key: JWK): SigningKey {
  return { ...key, kid: (key.x ?? "").slice(0, 16), alg: algorithm, use: "sig" };
}
