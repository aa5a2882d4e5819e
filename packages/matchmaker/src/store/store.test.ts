// SPDX-License-Identifier: Apache-2.0
import { sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { afterAll, describe, expect, it } from "vitest";
import { stopStores, storeKinds } from "../../testing/stores.ts";
import type { Secret } from "../model.ts";
import { type Change, isStoreError } from "./store.ts";

sayWhetherRedis();
afterAll(stopStores);

const secret = (id: string, value = id): Secret => ({ id, value });
const write = (id: string, version: number, value: Secret | undefined): Change => ({
  kind: "secret",
  id,
  version,
  value,
});
const key = (id: string) => ({ kind: "secret", id }) as const;

describe.each(storeKinds.filter(({ isHere }) => isHere))("a store in $name", (kind) => {
  it("makes all changes of a commit, with one version", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    const result = await store.commit([write("a", 0, secret("a")), write("b", 0, secret("b"))]);
    expect(result).toEqual({ ok: true, version: 1 });
    expect(await store.read([key("b"), key("none"), key("a")])).toEqual([
      { ...key("b"), version: 1, value: secret("b") },
      { ...key("none"), version: 0, value: undefined },
      { ...key("a"), version: 1, value: secret("a") },
    ]);
  });

  it("makes none when one record is not as the commit says, and names those", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await store.commit([write("a", 0, secret("a")), write("b", 0, secret("b"))]);
    const result = await store.commit([
      write("a", 1, secret("a", "new")),
      write("b", 0, secret("b", "new")),
      write("c", 7, undefined),
    ]);
    expect(result).toEqual({ ok: false, conflicts: [key("b"), key("c")] });
    expect((await store.read([key("a")]))[0]?.value).toEqual(secret("a"));
  });

  it("lets one of many win who change the same record", async () => {
    await using place = await kind.place();
    const stores = await Promise.all([place.open(), place.open(), place.open()]);
    const results = await Promise.all(
      stores.flatMap((store, index) =>
        Array.from({ length: 10 }, () => store.commit([write("a", 0, secret("a", `${index}`))])),
      ),
    );
    expect(results.filter(({ ok }) => ok)).toHaveLength(1);
    for (const store of stores) await store.close();
  });

  it("tells what has changed since a version, each record once and the deleted ones too", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await store.commit([write("a", 0, secret("a")), write("b", 0, secret("b"))]);
    await store.commit([write("a", 1, secret("a", "new"))]);
    await store.commit([write("b", 1, undefined), write("c", 0, secret("c"))]);
    expect(await store.changes(1, 100)).toMatchObject({
      cursor: 3,
      more: false,
      reset: false,
    });
    const { entries } = await store.changes(1, 100);
    expect(entries).toHaveLength(3);
    expect(entries).toEqual(
      expect.arrayContaining([
        { ...key("a"), version: 2, value: secret("a", "new") },
        { ...key("b"), version: 3, value: undefined },
        { ...key("c"), version: 3, value: secret("c") },
      ]),
    );
    expect((await store.changes(3, 100)).entries).toEqual([]);
  });

  it("tells changes in pages that cut no commit in two", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    for (let commit = 0; commit < 5; commit++) {
      await store.commit(
        Array.from({ length: 3 }, (_, index) => write(`${commit}-${index}`, 0, secret("x"))),
      );
    }
    const seen: string[] = [];
    for (let cursor = 0, more = true; more; ) {
      const page = await store.changes(cursor, 4);
      expect(page.entries.length % 3).toBe(0);
      seen.push(...page.entries.map(({ id }) => id));
      ({ cursor, more } = page);
    }
    expect(seen.sort()).toHaveLength(15);
    expect(new Set(seen).size).toBe(15);
  });

  it("has a reader start over who comes from the future", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await store.commit([write("a", 0, secret("a"))]);
    expect(await store.changes(1_000, 100)).toMatchObject({ reset: true, cursor: 1 });
  });

  it("gives a record that is made again a version that it never had", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await store.commit([write("a", 0, secret("a"))]);
    await store.commit([write("a", 1, undefined)]);
    expect(await store.commit([write("a", 1, secret("a"))])).toMatchObject({ ok: false });
    expect(await store.commit([write("a", 0, secret("a"))])).toEqual({ ok: true, version: 3 });
  });

  it("tells all who share it that something has changed", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await using other = await place.open();
    const told = new Promise<void>((resolve) => {
      other.onChange(resolve);
    });
    await store.commit([write("a", 0, secret("a"))]);
    await told;
  });

  it("gives a lease to one, until it is let go", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await using other = await place.open();
    const lease = await store.acquire("lead", 60_000);
    expect(lease).toBeDefined();
    expect(await other.acquire("lead", 60_000)).toBeUndefined();
    if (lease !== undefined) await store.release(lease);
    const next = await other.acquire("lead", 60_000);
    expect(next?.token).toBeGreaterThan(lease?.token ?? 0);
  });

  it("commits nothing under a lease that has run out, and says so", async () => {
    await using place = await kind.place();
    await using store = await place.open();
    await using other = await place.open();
    const lease = await store.acquire("lead", 60_000);
    if (lease === undefined) throw new Error("a lease was expected");
    expect(await store.renew(lease, 60_000)).toBe(true);
    expect(await store.commit([write("a", 0, secret("a"))], lease)).toMatchObject({ ok: true });
    for (let renewals = 0; renewals < 2; renewals++) {
      await place.pass(40_000);
      expect(await store.renew(lease, 60_000)).toBe(true);
    }
    await place.pass(60_000);
    expect(await store.renew(lease, 60_000)).toBe(false);
    const late = store.commit([write("b", 0, secret("b"))], lease);
    await expect(late).rejects.toSatisfy((error) => isStoreError(error, "fenced"));
    const next = await other.acquire("lead", 60_000);
    expect(next?.token).toBeGreaterThan(lease.token);
    const later = store.commit([write("b", 0, secret("b"))], lease);
    await expect(later).rejects.toSatisfy((error) => isStoreError(error, "fenced"));
    await store.release(lease);
    expect(await store.acquire("lead", 60_000)).toBeUndefined();
    expect((await store.read([key("b")]))[0]?.value).toBeUndefined();
  });
});
