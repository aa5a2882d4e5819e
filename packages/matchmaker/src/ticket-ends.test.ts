// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { startMs } from "../testing/start-ms.ts";
import { waitingTicket } from "../testing/waiting-ticket.ts";
import type { MatchmakerEvent } from "./events.ts";
import { put, Replica } from "./replica.ts";
import { memoryStore } from "./store/memory-store.ts";
import { type Store, StoreError } from "./store/store.ts";
import { TicketEnds } from "./ticket-ends.ts";

/** A replica that sees the store only when it syncs, and a store whose responses may be lost. */
async function open() {
  const inner = memoryStore({ time: manualTime(startMs) });
  const lost: ("made" | "not made")[] = [];
  const store: Store = {
    ...inner,
    async commit(changes, options) {
      const fault = lost.shift();
      const result = fault === "not made" ? undefined : await inner.commit(changes, options);
      if (result === undefined || fault !== undefined) {
        throw new StoreError("unavailable", "the response was lost");
      }
      return result;
    },
  };
  const events: MatchmakerEvent[] = [];
  const [replica, other] = [new Replica(store), new Replica(inner)];
  const ends = new TicketEnds(replica, (event) => events.push(event));
  await replica.commit([put("ticket", "mine", undefined, waitingTicket("mine"))]);
  await other.sync();
  /** Returns the change that ends the ticket, planned on the version that a replica has. */
  const endIn = (known: Replica, endedMs = startMs, state: "failed" | "cancelled" = "failed") =>
    put("ticket", "mine", known.get("ticket", "mine"), waitingTicket("mine", { state, endedMs }));
  const told = () => events.map((event) => (event.kind === "ticket-ended" ? event.state : ""));
  return { replica, other, ends, lost, endIn, told };
}

it("an end whose commit had an unknown outcome is reported once the replica sees it", async () => {
  const { replica, ends, lost, endIn, told } = await open();
  lost.push("made");
  await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
  expect(told()).toEqual([]);
  await replica.sync();
  expect(told()).toEqual(["failed"]);
  await replica.sync();
  expect(told()).toEqual(["failed"]);
});

it("an end that another process commits is not reported here if the commit of this process was not made", async () => {
  const { replica, other, ends, lost, endIn, told } = await open();
  lost.push("not made");
  await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
  await other.commit([endIn(other, startMs, "cancelled")]);
  await replica.sync();
  expect(told()).toEqual([]);
});

it.each([
  ["at the same time", startMs],
  ["later", startMs + 20],
])(
  "if a commit of an end has an unknown outcome, and another commit repeats the end %s, one end is reported",
  async (_, endedMs) => {
    for (const outcome of ["made", "not made"] as const) {
      const { replica, ends, lost, endIn, told } = await open();
      lost.push(outcome);
      await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
      await ends.commit([endIn(replica, endedMs)]);
      await replica.sync();
      expect(told()).toEqual(["failed"]);
    }
  },
);

it("once another change shows that the commit was not made, a later end of another process is not taken for it", async () => {
  const { replica, other, ends, lost, endIn, told } = await open();
  lost.push("not made");
  await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
  const changed = waitingTicket("mine", { attempts: 1 });
  await other.commit([put("ticket", "mine", other.get("ticket", "mine"), changed)]);
  await replica.sync();
  // Another process ends it at the same time by chance.
  await other.commit([endIn(other)]);
  await replica.sync();
  expect(told()).toEqual([]);
});
