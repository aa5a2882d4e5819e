// SPDX-License-Identifier: Apache-2.0
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { put, Replica } from "../replica/replica.ts";
import { memoryStore } from "../store/memory-store.ts";
import { generateSigningKey, SharedKeys, type SigningKey, signingKeyFromPem } from "./keys.ts";

describe("a configured signing key", () => {
  it("is read from PEM with its private half, and named after its public half", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    const { x, d } = privateKey.export({ format: "jwk" });
    expect(await signingKeyFromPem(pem)).toMatchObject({ x, d, kid: x?.slice(0, 16), use: "sig" });
    const text = publicKey.export({ format: "pem", type: "spki" }).toString();
    await expect(signingKeyFromPem(text)).rejects.toMatchObject({ cause: expect.any(Error) });
  });

  it("cannot be read from text that is not PEM, and the error says how to make a key", async () => {
    await expect(signingKeyFromPem("no key")).rejects.toThrow(/openssl genpkey/);
  });
});

describe("the key that matchmakers share", () => {
  const replaced = async (replica: Replica, key: SigningKey): Promise<void> => {
    const before = replica.get("secret", "signing-key");
    const value = { id: "signing-key", value: JSON.stringify(key) };
    await replica.commit([put("secret", "signing-key", before, value)]);
  };

  it("is put into the store once, and other processes read it from there", async () => {
    await using store = memoryStore();
    const first = await SharedKeys.open(new Replica(store));
    const second = await SharedKeys.open(new Replica(store));
    expect(first.all).toHaveLength(1);
    expect(second.all).toEqual(first.all);
  });

  it("is replaced by a new key in the store, and stays published", async () => {
    await using store = memoryStore();
    const replica = new Replica(store);
    const keys = await SharedKeys.open(replica);
    const [own] = keys.all;
    const next = await generateSigningKey();
    await replaced(replica, next);
    expect(keys.all).toEqual([next, own]);
    await replaced(replica, next);
    expect(keys.all).toEqual([next, own]);
  });

  it("that signed before is also published by a process that starts later, without its private half", async () => {
    await using store = memoryStore();
    const replica = new Replica(store);
    const keys = await SharedKeys.open(replica);
    const [{ d: _private, ...own } = {}] = keys.all;
    const next = await generateSigningKey();
    await replaced(replica, next);
    await keys.share();
    const late = await SharedKeys.open(new Replica(store));
    expect(late.all).toStrictEqual([next, own]);
    // Nothing is left to share.
    const { version } = replica.get("secret", "signing-key") ?? {};
    await keys.share();
    expect(replica.get("secret", "signing-key")?.version).toBe(version);
  });

  it("does not change with other records of the store", async () => {
    await using store = memoryStore();
    const replica = new Replica(store);
    const keys = await SharedKeys.open(replica);
    const before = keys.all;
    const value = JSON.stringify(await generateSigningKey());
    await replica.commit([
      put("secret", "another", undefined, { id: "another", value }),
      put("profile", "signing-key", undefined, { name: "signing-key", message: value }),
    ]);
    expect(keys.all).toEqual(before);
  });

  it("stays published until four newer keys have replaced it", async () => {
    await using store = memoryStore();
    const replica = new Replica(store);
    const keys = await SharedKeys.open(replica);
    const [own] = keys.all;
    for (let count = 0; count < 3; count++) {
      await replaced(replica, await generateSigningKey());
    }
    expect(keys.all).toHaveLength(4);
    expect(keys.all).toContainEqual(own);
    await replaced(replica, await generateSigningKey());
    expect(keys.all).toHaveLength(4);
    expect(keys.all).not.toContainEqual(own);
  });
});
