// SPDX-License-Identifier: Apache-2.0

import { put, remove } from "../replica.ts";
import type { Change } from "../store/store.ts";
import { type DirectorContext, leading } from "./context.ts";
import { ended } from "./outcomes.ts";

/** Tickets that are changed in one commit. */
const batchSize = 500;

/** Lets tickets fail that have waited too long, and forgets those that ended long ago. */
export async function keepTickets(context: DirectorContext): Promise<void> {
  const { replica, matchIndex, settings, emit } = context;
  const nowMs = replica.now();
  const message = `no match was found within ${settings.maxWaitMs} ms; create another ticket, with wider search fields`;
  const late: string[] = [];
  for (const { id, createdMs } of matchIndex.waiting.values()) {
    if (nowMs - createdMs >= settings.maxWaitMs) {
      late.push(id);
    }
  }
  const fail = (id: string): Change | undefined => {
    const ticket = replica.get("ticket", id);
    if (ticket?.value.state !== "waiting") {
      return undefined;
    }
    const reason = { code: "DEADLINE_EXCEEDED", message } as const;
    return put("ticket", id, ticket, ended(ticket.value, "failed", nowMs, reason));
  };
  await inBatches(context, late, fail, (ticketId) =>
    emit({ kind: "ticket-ended", ticketId, state: "failed", reason: message }),
  );
  const old: string[] = [];
  for (const [id, { endedMs = 0 }] of matchIndex.ended) {
    if (nowMs - endedMs >= settings.retainMs) {
      old.push(id);
    }
  }
  await inBatches(context, old, (id) => {
    const ticket = replica.get("ticket", id);
    return ticket === undefined ? undefined : remove("ticket", id, ticket);
  });
}

/**
 * Commits changes many at a time. A batch that meets another change is made anew by the next look.
 *
 * @param committed Told of each that was.
 */
async function inBatches(
  context: DirectorContext,
  ids: readonly string[],
  make: (id: string) => Change | undefined,
  committed: (id: string) => void = () => {},
): Promise<void> {
  for (let start = 0; start < ids.length; start += batchSize) {
    const changes = ids.slice(start, start + batchSize).flatMap((id) => make(id) ?? []);
    if (await context.replica.commit(changes, leading(context))) {
      for (const { id } of changes) {
        committed(id);
      }
    } else {
      context.wake();
    }
  }
}
