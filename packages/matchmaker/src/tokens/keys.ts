// SPDX-License-Identifier: Apache-2.0
import { exportJWK, generateKeyPair, importPKCS8, type JWK } from "jose";
import type { Secret } from "../model/model.ts";
import { put, type Replica } from "../replica/replica.ts";

/** Ed25519. */
export const algorithm = "EdDSA";

const secretId = "signing-key";

/** Maximum number of keys that are published at once. */
const maxKeys = 4;

/** A key that signs tokens, as a private JWK. */
export type SigningKey = JWK;

/** Creates a key from the machine's entropy. */
export async function generateSigningKey(): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair(algorithm, { crv: "Ed25519", extractable: true });
  return named(await exportJWK(privateKey));
}

/**
 * Reads the key in a PEM file of PKCS #8, as `openssl genpkey -algorithm ed25519` writes it.
 *
 * @throws Error if the text is not such a key.
 */
export async function signingKeyFromPem(pem: string): Promise<SigningKey> {
  try {
    return named(await exportJWK(await importPKCS8(pem, algorithm, { extractable: true })));
  } catch (error) {
    throw new Error(
      'signing key: expected an Ed25519 private key as PEM (PKCS #8), received another text; make a key with "openssl genpkey -algorithm ed25519"',
      { cause: error },
    );
  }
}

/** The record in the store: the key that signs, and the public halves of the keys that signed before. */
type StoredKeys = SigningKey & { readonly earlier?: readonly JWK[] };

/**
 * The signing keys of a matchmaker that shares its key through the store. The key in the store signs.
 * The keys that signed before, at most the last three, stay published: tokens that they signed are valid until they
 * expire. The store also has their public halves, for matchmakers that start later.
 */
export class SharedKeys {
  readonly #replica: Replica;
  #keys: readonly SigningKey[] = [];

  private constructor(replica: Replica) {
    this.#replica = replica;
    replica.onChange((change) => {
      if (change.kind === "secret" && change.id === secretId) {
        this.#adopt(change.after);
      }
    });
    this.#adopt(replica.get("secret", secretId)?.value);
  }

  /**
   * Uses the key in the store, or stores a new key. Every process that can read the store can sign;
   * to avoid that, set the option `signingKey`.
   */
  static async open(replica: Replica): Promise<SharedKeys> {
    const keys = new SharedKeys(replica);
    if (keys.#keys.length === 0) {
      await replica.refresh([{ kind: "secret", id: secretId }]);
      if (keys.#keys.length === 0) {
        keys.#keys = [await generateSigningKey()];
      }
      await keys.share();
    }
    return keys;
  }

  /** The keys whose tokens are valid; the first one signs. */
  get all(): readonly SigningKey[] {
    return this.#keys;
  }

  /**
   * Puts the key of this process into the store, unless the store has a key, and the public halves of the keys that
   * signed before.
   */
  async share(): Promise<void> {
    for (;;) {
      const stored = this.#replica.get("secret", secretId);
      const known = new Set(stored === undefined ? [] : keysIn(stored.value).map(({ kid }) => kid));
      if (this.#keys.every(({ kid }) => known.has(kid))) {
        return;
      }
      const [key, ...earlier] = this.#keys;
      const value = JSON.stringify({ ...key, earlier: earlier.map(publicHalf) });
      await this.#replica.commit([put("secret", secretId, stored, { id: secretId, value })]);
    }
  }

  #adopt(secret: Secret | undefined): void {
    if (secret === undefined) {
      return;
    }
    const keys = keysIn(secret);
    const stored = new Set(keys.map(({ kid }) => kid));
    const [key, ...earlier] = keys;
    const own = this.#keys.filter(({ kid }) => !stored.has(kid));
    this.#keys = key === undefined ? own : [key, ...own, ...earlier].slice(0, maxKeys);
  }
}

/** Returns the keys of a record; the first one signs. */
function keysIn({ value }: Secret): SigningKey[] {
  const { earlier = [], ...key }: StoredKeys = JSON.parse(value);
  return [key, ...earlier];
}

function publicHalf({ d: _private, ...key }: SigningKey): JWK {
  return key;
}

/** Names a key after its public half, so that every process gives it the same id. */
function named(key: JWK): SigningKey {
  return { ...key, kid: (key.x ?? "").slice(0, 16), alg: algorithm, use: "sig" };
}
