// SPDX-License-Identifier: Apache-2.0

import type { Ticket } from "../model/model.ts";
import type { MatchmakerSettings } from "../model/settings.ts";
import { put, remove } from "../replica/replica.ts";
import type { Change } from "../store/store.ts";
import { commit, type DirectorContext } from "./context.ts";
import { ended } from "./outcomes.ts";

/** Tickets per commit. */
const batchSize = 500;

/**
 * Fails tickets that have waited too long, and tickets that no call has watched or read for too long.
 * Deletes tickets that ended long ago.
 */
export async function keepTickets(context: DirectorContext): Promise<void> {
  const { replica, matchIndex, settings } = context;
  const nowMs = replica.now();
  const late: string[] = [];
  for (const waiting of [matchIndex.waiting, matchIndex.away]) {
    for (const ticket of waiting.values()) {
      if (overdue(ticket, settings, nowMs) !== undefined) {
        late.push(ticket.id);
      }
    }
  }
  const fail = (id: string): Change | undefined => {
    const ticket = replica.get("ticket", id);
    const message = ticket && overdue(ticket.value, settings, nowMs);
    if (ticket?.value.state !== "waiting" || message === undefined) {
      return undefined;
    }
    const reason = { code: "DEADLINE_EXCEEDED", message } as const;
    return put("ticket", id, ticket, ended(ticket.value, "failed", nowMs, reason));
  };
  await inBatches(context, late, fail);
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

/** Returns the reason why a waiting ticket fails now; undefined while it may wait. */
function overdue(
  { createdMs, waitingSinceMs = createdMs, aliveUntilMs, away }: Ticket,
  { maxWaitMs, ticketLeaseMs, awayMs }: MatchmakerSettings,
  nowMs: number,
): string | undefined {
  if (nowMs - waitingSinceMs >= maxWaitMs) {
    return `no match was found within ${maxWaitMs} ms; create another ticket, or widen the profile's filters (limit: maxWaitMs)`;
  }
  if (aliveUntilMs === undefined || nowMs < aliveUntilMs) {
    return undefined;
  }
  return away === true
    ? `the ticket's watch ended, and no call watched or read the ticket within ${awayMs} ms; create another ticket, and watch it until it is assigned (limit: awayMs)`
    : `the ticket's lease of ${ticketLeaseMs} ms expired: expected a watch, or a read at least every third of that time; create another ticket, and watch it until it is assigned (limit: ticketLeaseMs)`;
}

/** Commits changes in batches. If a batch conflicts, the next tick repeats it. */
async function inBatches(
  context: DirectorContext,
  ids: readonly string[],
  make: (id: string) => Change | undefined,
): Promise<void> {
  for (let start = 0; start < ids.length; start += batchSize) {
    await commit(
      context,
      ids.slice(start, start + batchSize).flatMap((id) => make(id) ?? []),
    );
  }
}
