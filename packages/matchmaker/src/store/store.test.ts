// SPDX-License-Identifier: Apache-2.0
import { sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { afterAll, describe, expect, it } from "vitest";
import { stopStores, storeKinds } from "../../testing/stores.ts";
import type { Secret } from "../model/model.ts";
import { type Change, type Changes, isStoreError, type Store } from "./store.ts";

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
    await using data = await kind.createData();
    await using store = await data.open();
    const version = await commitAll(store, [
      write("a", 0, secret("a")),
      write("b", 0, secret("b")),
    ]);
    expect(await store.read([key("b"), key("none"), key("a")])).toEqual([
      { ...key("b"), version, value: secret("b") },
      { ...key("none"), version: 0, value: undefined },
      { ...key("a"), version, value: secret("a") },
    ]);
  });

  it("makes no change if a record has another version, and returns the conflicting records", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const version = await commitAll(store, [
      write("a", 0, secret("a")),
      write("b", 0, secret("b")),
    ]);
    const result = await store.commit([
      write("a", version, secret("a", "new")),
      write("b", 0, secret("b", "new")),
      write("c", version, undefined),
    ]);
    expect(result).toEqual({ ok: false, conflicts: [key("b"), key("c")] });
    expect((await store.read([key("a")]))[0]?.value).toEqual(secret("a"));
  });

  it("commits exactly one of several concurrent changes to a record", async () => {
    await using data = await kind.createData();
    const stores = await Promise.all([data.open(), data.open(), data.open()]);
    const results = await Promise.all(
      stores.flatMap((store, index) =>
        Array.from({ length: 10 }, () => store.commit([write("a", 0, secret("a", `${index}`))])),
      ),
    );
    expect(results.filter(({ ok }) => ok)).toHaveLength(1);
    for (const store of stores) {
      await store.close();
    }
  });

  it("refuses a commit that contains a record twice", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const twice = [
      write("a", 0, secret("a")),
      write("b", 0, secret("b")),
      write("a", 0, secret("a")),
    ];
    await expect(store.commit(twice)).rejects.toThrow(
      'commit of 3 changes: expected each record once, received "secret/a" twice',
    );
    expect((await store.read([key("b")]))[0]?.value).toBeUndefined();
  });

  it("returns each record that changed since a position once, including deleted records", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const first = await commitAll(store, [write("a", 0, secret("a")), write("b", 0, secret("b"))]);
    const { position } = await store.changes(undefined, 100);
    const second = await commitAll(store, [write("a", first, secret("a", "new"))]);
    const third = await commitAll(store, [
      write("b", first, undefined),
      write("c", 0, secret("c")),
    ]);
    const page = await store.changes(position, 100);
    expect(page).toMatchObject({ more: false, reset: false, lost: false });
    expect(page.position.version).toBe(third);
    expect(page.entries).toHaveLength(3);
    expect(page.entries).toEqual(
      expect.arrayContaining([
        { ...key("a"), version: second, value: secret("a", "new") },
        { ...key("b"), version: third, value: undefined },
        { ...key("c"), version: third, value: secret("c") },
      ]),
    );
    expect((await store.changes(page.position, 100)).entries).toEqual([]);
  });

  it("omits records whose version the reader knows, unless the reader must start over", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const { position } = await store.changes(undefined, 100);
    const first = await commitAll(store, [write("a", 0, secret("a")), write("b", 0, secret("b"))]);
    const second = await commitAll(store, [write("b", first, secret("b", "new"))]);
    const latest = { ...key("b"), version: second, value: secret("b", "new") };
    const page = await store.changes(position, 100, new Set([first]));
    expect(page).toMatchObject({ entries: [latest], more: false, reset: false });
    expect(page.position.version).toBe(second);
    const known = new Set([first, second]);
    const nothing = await store.changes(position, 1, known);
    expect(nothing.entries).toEqual([]);
    expect(nothing.position.version).toBeGreaterThan(position.version);
    expect((await store.changes(undefined, 100, known)).entries).toHaveLength(2);
  });

  it("returns changes in pages that do not split a commit", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    for (let commit = 0; commit < 5; commit++) {
      await store.commit(
        Array.from({ length: 3 }, (_, index) => write(`${commit}-${index}`, 0, secret("x"))),
      );
    }
    const pages = await pagesOf(store, 4);
    for (const { entries } of pages) {
      expect(entries.length % 3).toBe(0);
    }
    const seen = pages.flatMap(({ entries }) => entries.map(({ id }) => id));
    expect(seen).toHaveLength(15);
    expect(new Set(seen).size).toBe(15);
  });

  it("makes a reader start over if deletions were forgotten between two pages", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    for (const id of ["a", "b", "c"]) {
      await store.commit([write(id, 0, secret(id))]);
    }
    await makeAndDelete(store, 25_000);
    const seen = (await pagesOf(store, 2)).flatMap(({ entries }) => entries);
    expect(seen.filter(({ value }) => value !== undefined).map(({ id }) => id)).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  it("makes a reader start over if the reader missed deletions that the store has forgotten", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    await store.commit([write("a", 0, secret("a"))]);
    const { position } = await store.changes(undefined, 100);
    await makeAndDelete(store, 25_000);
    const page = await store.changes(position, 1);
    expect(page).toMatchObject({ reset: true, lost: false });
    expect(page.entries.map(({ id }) => id)).toEqual(["a"]);
  });

  it("refuses a commit that was planned in another life of the store", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const { life } = (await store.changes(undefined, 1)).position;
    expect(await store.commit([write("a", 0, secret("a"))], { life })).toMatchObject({ ok: true });
    const late = store.commit([write("b", 0, secret("b"))], { life: "an earlier one" });
    await expect(late).rejects.toSatisfy((error) => isStoreError(error, "lost"));
    expect((await store.read([key("b")]))[0]?.value).toBeUndefined();
  });

  it("never repeats a version of a record that is deleted and created again", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const first = await commitAll(store, [write("a", 0, secret("a"))]);
    await store.commit([write("a", first, undefined)]);
    expect(await store.commit([write("a", first, secret("a"))])).toMatchObject({ ok: false });
    expect(await commitAll(store, [write("a", 0, secret("a"))])).toBeGreaterThan(first + 1);
  });

  it("tells every process that shares the store about changes", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    await using other = await data.open();
    const told = new Promise<void>((resolve) => {
      other.onChange(resolve);
    });
    await store.commit([write("a", 0, secret("a"))]);
    await told;
  });

  it("grants a lease to one holder at a time, until it is released", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    await using other = await data.open();
    const lease = await store.acquire("lead", "me", 60_000);
    expect(lease).toMatchObject({ name: "lead", holder: "me" });
    expect(await other.acquire("lead", "you", 60_000)).toBeUndefined();
    if (lease !== undefined) {
      await store.release(lease);
    }
    const next = await other.acquire("lead", "you", 60_000);
    expect(next).toMatchObject({ holder: "you" });
    expect(next?.epoch).not.toBe(lease?.epoch);
  });

  it("grants a lease again to its holder, in case the first response was lost, and fences the earlier lease", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    const unheard = await store.acquire("lead", "me", 60_000);
    const lease = await store.acquire("lead", "me", 60_000);
    if (lease === undefined || unheard === undefined) {
      throw new Error("a lease was expected");
    }
    expect(lease.epoch).not.toBe(unheard.epoch);
    expect(await store.renew(unheard, 60_000)).toBe(false);
    expect(await store.renew(lease, 60_000)).toBe(true);
    await store.release(unheard);
    expect(await store.acquire("lead", "you", 60_000)).toBeUndefined();
    const late = store.commit([write("a", 0, secret("a"))], { lease: unheard });
    await expect(late).rejects.toSatisfy((error) => isStoreError(error, "fenced"));
  });

  it("refuses a commit under an expired lease as fenced", async () => {
    await using data = await kind.createData();
    await using store = await data.open();
    await using other = await data.open();
    const lease = await store.acquire("lead", "me", 60_000);
    if (lease === undefined) {
      throw new Error("a lease was expected");
    }
    expect(await store.renew(lease, 60_000)).toBe(true);
    expect(await store.commit([write("a", 0, secret("a"))], { lease })).toMatchObject({ ok: true });
    for (let renewals = 0; renewals < 2; renewals++) {
      await data.pass(40_000);
      expect(await store.renew(lease, 60_000)).toBe(true);
    }
    await data.pass(60_000);
    expect(await store.renew(lease, 60_000)).toBe(false);
    const late = store.commit([write("b", 0, secret("b"))], { lease });
    await expect(late).rejects.toSatisfy((error) => isStoreError(error, "fenced"));
    expect(await other.acquire("lead", "you", 60_000)).toMatchObject({ holder: "you" });
    const later = store.commit([write("b", 0, secret("b"))], { lease });
    await expect(later).rejects.toSatisfy((error) => isStoreError(error, "fenced"));
    await store.release(lease);
    expect(await store.acquire("lead", "me", 60_000)).toBeUndefined();
    expect((await store.read([key("b")]))[0]?.value).toBeUndefined();
  });
});

/** Commits, and returns the version. */
async function commitAll(store: Store, changes: readonly Change[]): Promise<number> {
  const result = await store.commit(changes);
  if (result.ok) {
    return result.version;
  }
  throw new Error(`a commit was expected, received ${JSON.stringify(result)}`);
}

async function makeAndDelete(store: Store, count: number): Promise<void> {
  for (let made = 0; made < count; made += 1_000) {
    const ids = Array.from({ length: 1_000 }, (_, index) => `short-lived ${made + index}`);
    const version = await commitAll(
      store,
      ids.map((id) => write(id, 0, secret(id))),
    );
    await commitAll(
      store,
      ids.map((id) => write(id, version, undefined)),
    );
  }
}

/** Returns all records of a store, in pages. */
async function pagesOf(store: Store, limit: number): Promise<Changes[]> {
  const pages = [await store.changes(undefined, limit)];
  for (let last = pages[0]; last?.more === true; last = pages.at(-1)) {
    pages.push(await store.changes(last.position, limit));
    if (pages.length > 1_000) {
      throw new Error("an end of the pages was expected");
    }
  }
  return pages;
}
