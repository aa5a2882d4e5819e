// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

import type { ServerAllocator } from "../fleet/allocator.ts";
import type { WorldServers } from "../fleet/world-servers.ts";
import type { MatchProposal } from "../functions/match-function.ts";
import type { Emit } from "../model/events.ts";
import type { ServerRecord } from "../model/model.ts";
import type { MatchmakerSettings } from "../model/settings.ts";
import type { Replica } from "../replica/replica.ts";
import type { TicketEnds } from "../replica/ticket-ends.ts";
import type { Change, Lease } from "../store/store.ts";
import { StoreError } from "../store/store.ts";
import type { TokenIssuer } from "../tokens/issuer.ts";
import type { MatchIndex } from "./indexes/match-index.ts";

/** A match that a function proposed for a profile. */
export interface Proposal extends MatchProposal {
  readonly profile: string;
}

/**
 * Chooses among the proposals of all profiles. The returned proposals become matches in the order of the
 * list. A proposal that shares a ticket with an earlier proposal is skipped. If the function throws, the tick
 * makes no matches.
 */
export type Evaluate = (proposals: readonly Proposal[]) => readonly Proposal[];

/** State and dependencies that the director's steps share. */
export interface DirectorContext {
  readonly replica: Replica;
  readonly matchIndex: MatchIndex;
  readonly ends: TicketEnds;
  readonly servers: WorldServers;
  /** Undefined if no orchestrator manages the servers. */
  readonly allocator: ServerAllocator | undefined;
  readonly issuer: TokenIssuer;
  readonly settings: MatchmakerSettings;
  readonly evaluate: Evaluate;
  readonly time: TimeSource;
  readonly emit: Emit;
  /** Creates unique ids. */
  readonly newId: () => string;
  /** Returns the lease of the leader; undefined while this matchmaker does not have the lease. */
  readonly lease: () => Lease | undefined;
  /** Worlds that a report has contained since this matchmaker became the leader. */
  readonly reportedWorlds: Set<string>;
  /** Returns true if a server may be dead. Such a server gets no agents for now. */
  isSuspect(serverId: string): boolean;
  /** Marks a server as suspect until it answers or reports again. */
  suspect(serverId: string): void;
  /**
   * Allocates a server for its first world.
   *
   * @returns True if the server is allocated, or need not be.
   */
  allocate(server: ServerRecord): Promise<boolean>;
  /** Requests a tick soon. */
  wake(): void;
}

/** Dependencies of a commit. */
type Committing = Pick<DirectorContext, "ends" | "lease">;

/**
 * Maximum number of attempts to commit a change. A conflict means that another commit, such as a cancel, was
 * made first.
 */
const maxConflicts = 100;

/**
 * Commits the changes that `make` plans from the replica. After a conflict, `make` plans the changes again.
 *
 * @param make Returns undefined if there is nothing left to change.
 * @returns True if the changes were committed.
 * @throws StoreError `fenced` if this matchmaker no longer leads.
 * @throws StoreError `unavailable` if the outcome is unknown.
 * @throws Error after many conflicts in a row.
 */
export async function change(
  context: Committing,
  make: () => readonly Change[] | undefined,
): Promise<boolean> {
  for (let attempt = 0; attempt < maxConflicts; attempt++) {
    const changes = make();
    if (changes === undefined || changes.length === 0) {
      return false;
    }
    if (await commit(context, changes)) {
      return true;
    }
  }
  throw new Error(
    `commit failed: expected no conflict, received ${maxConflicts} in a row; the next tick tries again`,
  );
}

/**
 * Commits changes as the leader, and reports the tickets that these changes end.
 *
 * @returns True if the changes were committed; false after a conflict.
 * @throws StoreError as `change` does.
 */
export async function commit(context: Committing, changes: readonly Change[]): Promise<boolean> {
  return await context.ends.commit(changes, leading(context));
}

/**
 * Returns the lease of the leader.
 *
 * @throws StoreError `fenced` if this matchmaker does not lead.
 */
function leading({ lease: leaseOf }: Committing): Lease {
  const lease = leaseOf();
  if (lease !== undefined) {
    return lease;
  }
  throw new StoreError("fenced", "this matchmaker no longer leads; nothing was changed");
}
