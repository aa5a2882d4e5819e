// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { startMs } from "../../testing/start-ms.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import type { MatchmakerEvent } from "../model/events.ts";
import { put, Replica, remove } from "../replica/replica.ts";
import { TicketEnds } from "../replica/ticket-ends.ts";
import { memoryStore } from "../store/memory-store.ts";
import { change, commit } from "./context.ts";

/** A leader's replica of a store in memory, and the replica of another matchmaker. */
async function open() {
  const store = memoryStore({ time: manualTime(startMs) });
  const lease = await store.acquire("director", "one", 60_000);
  const events: MatchmakerEvent[] = [];
  const [replica, other] = [new Replica(store), new Replica(store)];
  const ends = new TicketEnds(replica, (event) => events.push(event));
  const context = { ends, lease: () => lease };
  await replica.commit([put("ticket", "mine", undefined, waitingTicket("mine"))]);
  await other.sync();
  /** Returns the change that counts one more attempt of the ticket. */
  const countIn = (planned: Replica) => {
    const stored = planned.get("ticket", "mine");
    const attempts = (stored?.value.attempts ?? 0) + 1;
    return put("ticket", "mine", stored, waitingTicket("mine", { attempts }));
  };
  return { store, context, replica, other, events, countIn };
}

describe("a change", () => {
  it("is planned again from the current records after a conflict", async () => {
    const { context, replica, other, countIn } = await open();
    await other.commit([countIn(other)]);
    let planned = 0;
    const isDone = await change(context, () => {
      planned += 1;
      return [countIn(replica)];
    });
    expect([isDone, planned]).toEqual([true, 2]);
    expect(replica.get("ticket", "mine")?.value.attempts).toBe(2);
  });

  it("that has nothing left to do commits nothing, even without a lease", async () => {
    const { context, replica, other, countIn } = await open();
    const follower = { ...context, lease: () => undefined };
    expect(await change(follower, () => undefined)).toBe(false);
    expect(await change(follower, () => [])).toBe(false);
    // A change that another process has already made is not made again.
    await other.commit([countIn(other)]);
    const isDone = await change(context, () =>
      replica.get("ticket", "mine")?.value.attempts === 0 ? [countIn(replica)] : undefined,
    );
    expect(isDone).toBe(false);
    expect(replica.get("ticket", "mine")?.value.attempts).toBe(1);
  });

  it("that conflicts a hundred times in a row fails", async () => {
    const { context } = await open();
    let planned = 0;
    const hopeless = change(context, () => {
      planned += 1;
      return [put("ticket", "mine", undefined, waitingTicket("mine"))];
    });
    await expect(hopeless).rejects.toThrow("received 100 in a row");
    expect(planned).toBe(100);
  });

  it("of a matchmaker that does not lead is refused as fenced, and changes nothing", async () => {
    const { context, store, replica, countIn } = await open();
    const { position } = await store.changes(undefined, 100);
    const refused = change({ ...context, lease: () => undefined }, () => [countIn(replica)]);
    await expect(refused).rejects.toMatchObject({ reason: "fenced" });
    expect((await store.changes(position, 100)).entries).toEqual([]);
  });
});

describe("a commit", () => {
  it("reports the tickets that end with it, with their reasons, and no other records", async () => {
    const { context, replica, events, countIn } = await open();
    await replica.commit([
      put("ticket", "old", undefined, waitingTicket("old", { state: "completed" })),
    ]);
    const old = replica.get("ticket", "old");
    const reason = { code: "UNAVAILABLE", message: "the server is gone" } as const;
    const isDone = await commit(context, [
      countIn(replica),
      put("ticket", "lost", undefined, waitingTicket("lost", { state: "failed", reason })),
      put("ticket", "done", undefined, waitingTicket("done", { state: "completed" })),
      put("profile", "any", undefined, { name: "any", message: "" }),
      ...(old === undefined ? [] : [remove("ticket", "old", old)]),
    ]);
    expect(isDone).toBe(true);
    expect(events).toEqual([
      { kind: "ticket-ended", ticketId: "lost", state: "failed", reason: "the server is gone" },
      { kind: "ticket-ended", ticketId: "done", state: "completed", reason: undefined },
    ]);
  });

  it("that conflicts reports nothing", async () => {
    const { context, events } = await open();
    const ended = waitingTicket("mine", { state: "completed" });
    expect(await commit(context, [put("ticket", "mine", undefined, ended)])).toBe(false);
    expect(events).toEqual([]);
  });
});
