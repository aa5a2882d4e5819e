// SPDX-License-Identifier: Apache-2.0
import type { AgeOrder } from "../director/indexes/age-order.ts";
import type { MatchIndex } from "../director/indexes/match-index.ts";
import { byTurn, type WaitingTicket } from "../functions/match-function.ts";
import type { Ticket } from "../model/model.ts";
import { countBefore } from "../model/sorted-list.ts";
import type { Replica, ReplicaChange } from "../replica/replica.ts";

/** The place of a waiting ticket among the others. */
export interface QueuePosition {
  /** The place in a pool of some profile: 1 for the ticket that is matched next. */
  readonly position: number;
  /** Undefined while that profile matches no tickets. */
  readonly estimatedWaitMs: number | undefined;
}

/** The tickets of a pool at one moment. */
interface Snapshot {
  readonly list: readonly WaitingTicket[];
  readonly madeMs: number;
}

/** Rate at which tickets of a profile are matched. */
interface Flow {
  matched: number;
  perSecond: number;
}

/** Weight of the latest interval in the rate of a profile. */
const latestWeight = 0.3;
/** Up to this position a watch reports every change; beyond it, only a drop by a fifth. */
const exactPosition = 10;

/**
 * Estimates positions of waiting tickets. Each pool is copied at most once per `positionMs`, and a position costs
 * O(log n) in that copy.
 */
export class Positions {
  readonly #matchIndex: MatchIndex;
  readonly #replica: Replica;
  readonly #positionMs: number;
  readonly #snapshots = new WeakMap<AgeOrder, Snapshot>();
  readonly #flows = new Map<string, Flow>();
  readonly #stop: () => void;
  #measuredMs: number;

  constructor(replica: Replica, matchIndex: MatchIndex, positionMs: number) {
    this.#replica = replica;
    this.#matchIndex = matchIndex;
    this.#positionMs = positionMs;
    this.#measuredMs = replica.now();
    this.#stop = replica.onChange((change) => this.#count(change));
  }

  close(): void {
    this.#stop();
  }

  /** Returns the best position of a ticket in its pools; undefined unless the ticket waits in a pool. */
  of(ticket: Ticket): QueuePosition | undefined {
    if (ticket.state !== "waiting") {
      return undefined;
    }
    this.#measure();
    let best: QueuePosition | undefined;
    for (const [profile, order] of this.#matchIndex.ordersWith(ticket.id)) {
      const position = rankIn(this.#snapshot(order), ticket) + 1;
      if (best === undefined || position < best.position) {
        const perSecond = this.#flows.get(profile)?.perSecond ?? 0;
        const estimatedWaitMs = perSecond > 0 ? (position / perSecond) * 1_000 : undefined;
        best = { position, estimatedWaitMs };
      }
    }
    return best;
  }

  /** Returns true if a position differs enough from the last reported one to be reported. */
  isNews(position: number | undefined, reported: number | undefined): boolean {
    if (position === reported || position === undefined) {
      return false;
    }
    return reported === undefined || position <= exactPosition || position <= 0.8 * reported;
  }

  #snapshot(order: AgeOrder): readonly WaitingTicket[] {
    const nowMs = this.#replica.now();
    const known = this.#snapshots.get(order);
    if (known !== undefined && nowMs - known.madeMs < this.#positionMs) {
      return known.list;
    }
    const { list } = order;
    this.#snapshots.set(order, { list, madeMs: nowMs });
    return list;
  }

  #count({ kind, before, after }: ReplicaChange): void {
    if (kind !== "ticket" || before?.state !== "waiting" || after?.matchId === undefined) {
      return;
    }
    const profile = this.#replica.get("match", after.matchId)?.value.profile;
    if (profile === undefined) {
      return;
    }
    const flow = this.#flows.get(profile) ?? { matched: 0, perSecond: 0 };
    flow.matched += 1;
    this.#flows.set(profile, flow);
  }

  /** Updates the rates once per interval. */
  #measure(): void {
    const nowMs = this.#replica.now();
    const passedMs = nowMs - this.#measuredMs;
    if (passedMs < this.#positionMs) {
      return;
    }
    this.#measuredMs = nowMs;
    for (const [profile, flow] of this.#flows) {
      const latest = (flow.matched * 1_000) / passedMs;
      const isFirst = flow.perSecond === 0;
      flow.perSecond += (isFirst ? 1 : latestWeight) * (latest - flow.perSecond);
      flow.matched = 0;
      if (flow.perSecond < 0.001) {
        this.#flows.delete(profile);
      }
    }
  }
}

/** Returns the number of tickets in a sorted list that are matched before a ticket. */
function rankIn(list: readonly WaitingTicket[], ticket: WaitingTicket): number {
  return countBefore(list, (other) => byTurn(other, ticket) < 0);
}
