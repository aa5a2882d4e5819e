// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { wrappedStore } from "../../testing/wrapped-stores.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { Change, Changes } from "../store/store.ts";
import { put, Replica } from "./replica.ts";

const secret = { kind: "secret", id: "a" } as const;

const create = (id: string): Change => put("secret", id, undefined, { id, value: id });

/** Returns a replica of a store in memory; `onPage` is called with each page that the replica reads. */
function followed(onPage: (page: Changes) => Promise<void>) {
  const inner = memoryStore();
  const store = wrappedStore(inner, async (run, call) => {
    const answer = await run();
    if (call.name === "changes") {
      await onPage(answer as Changes);
    }
    return answer;
  });
  return { inner, replica: new Replica(store) };
}

it("a replica reads the commits of others, and skips its own commits except for records that others have changed later", async () => {
  const pages: Changes[] = [];
  const { inner, replica } = followed(async (page) => {
    pages.push(page);
  });
  await replica.sync();
  await replica.commit([create("own"), create("changed")]);
  await inner.commit([create("other")]);
  const version = replica.get("secret", "changed")?.version ?? 0;
  const value = { id: "changed", value: "new" };
  await inner.commit([{ kind: "secret", id: "changed", version, value }]);
  await replica.sync();
  expect(pages.at(-1)?.entries.map(({ id }) => id)).toEqual(["other", "changed"]);
  const values = [...replica.table("secret").values()].map(({ value }) => value.value);
  expect(values).toEqual(["own", "new", "other"]);
});

it("a replica that starts over keeps a commit that it made after the last page was read", async () => {
  let pages = 0;
  const { inner, replica } = followed(async () => {
    pages += 1;
    if (pages === 2) {
      await replica.commit([create("late")]);
    }
  });
  await inner.commit(Array.from({ length: 2_000 }, (_, index) => create(`first ${index}`)));
  await inner.commit([create("second")]);
  await replica.sync();
  expect(pages).toBe(2);
  await replica.sync();
  expect(replica.table("secret").size).toBe(2_002);
  expect(replica.get("secret", "late")?.value.value).toBe("late");
});

it("a replica that makes more commits than it can remember reads some of them again", async () => {
  const pages: Changes[] = [];
  const { replica } = followed(async (page) => {
    pages.push(page);
  });
  await replica.sync();
  for (let made = 0; made < 1_100; made++) {
    await replica.commit([create(`${made}`)]);
  }
  await replica.sync();
  expect(pages.at(-1)?.entries).toHaveLength(100);
  expect(replica.table("secret").size).toBe(1_100);
});

it("a record that the store read before its deletion does not return to a replica that already knows the deletion", async () => {
  const inner = memoryStore();
  let sendAnswer = (): void => {};
  const wait = new Promise<void>((resolve) => {
    sendAnswer = resolve;
  });
  const store = wrappedStore(inner, async (run, call) => {
    const answer = await run();
    if (call.name === "read") {
      await wait;
    }
    return answer;
  });
  const replica = new Replica(store);
  const made = await inner.commit([create("a")]);
  const refreshed = replica.refresh([secret]);
  await inner.commit([{ ...secret, version: made.ok ? made.version : 0, value: undefined }]);
  await replica.sync();
  sendAnswer();
  await refreshed;
  expect(replica.get("secret", "a")).toBeUndefined();
});
