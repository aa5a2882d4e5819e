// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Fleet, profile } from "../testing/fleet.ts";
import { startMs } from "../testing/start-ms.ts";
import { sharedStore } from "../testing/wrapped-stores.ts";
import { memoryStore } from "./store/memory-store.ts";

it("each start of a matchmaker reverts operators' changes of configured profiles, and keeps other profiles", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const start = (names: readonly string[]) =>
    Fleet.open({
      time,
      store: sharedStore(store),
      profiles: names.map((name) => profile({ name, count: 2 })),
    });
  const namesAndCounts = async ({ admin, matchmaker }: Fleet) => {
    await matchmaker.tick();
    const { profiles } = await admin.listProfiles({});
    return Object.fromEntries(
      profiles.map(({ name, matchFunction }) => [name, matchFunction?.function.value]),
    );
  };
  const count = (count: number) => expect.objectContaining({ count });
  await using first = await start(["changed", "deleted", "removed"]);
  for (const name of ["changed", "removed", "operator's own"]) {
    await first.admin.putProfile({ profile: profile({ name, count: 3 }) });
  }
  await first.admin.deleteProfile({ name: "deleted" });
  expect(await namesAndCounts(first)).toEqual({
    changed: count(3),
    removed: count(3),
    "operator's own": count(3),
  });
  await using second = await start(["changed", "deleted"]);
  const expected = {
    changed: count(2),
    deleted: count(2),
    removed: count(3),
    "operator's own": count(3),
  };
  expect(await namesAndCounts(second)).toEqual(expected);
  await first.settle();
  expect(await namesAndCounts(first)).toEqual(expected);
});
