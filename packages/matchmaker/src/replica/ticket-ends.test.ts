// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { startMs } from "../../testing/start-ms.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import type { MatchmakerEvent } from "../model/events.ts";
import { memoryStore } from "../store/memory-store.ts";
import { type Store, StoreError } from "../store/store.ts";
import { put, Replica } from "./replica.ts";
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

it("an end whose commit had an unknown outcome is reported when the replica reads the end", async () => {
  const { replica, ends, lost, endIn, told } = await open();
  lost.push("made");
  await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
  expect(told()).toEqual([]);
  await replica.sync();
  expect(told()).toEqual(["failed"]);
  await replica.sync();
  expect(told()).toEqual(["failed"]);
});

it("if this process's commit was not made and another process ends the ticket, this process reports no end", async () => {
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
  "an end is reported once if the outcome of its commit is unknown and the end is committed again %s",
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

it("after another change shows that this process's commit was not made, an end that another process commits is not reported", async () => {
  const { replica, other, ends, lost, endIn, told } = await open();
  lost.push("not made");
  await expect(ends.commit([endIn(replica)])).rejects.toThrow("the response was lost");
  const changed = waitingTicket("mine", { attempts: 1 });
  await other.commit([put("ticket", "mine", other.get("ticket", "mine"), changed)]);
  await replica.sync();
  // By chance, another process ends the ticket at the same time.
  await other.commit([endIn(other)]);
  await replica.sync();
  expect(told()).toEqual([]);
});
