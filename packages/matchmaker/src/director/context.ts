// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

import type { Emit } from "../events.ts";
import type { MatchProposal } from "../functions/match-function.ts";
import type { Replica } from "../replica.ts";
import type { MatchmakerSettings } from "../settings.ts";
import type { Change, Lease } from "../store/store.ts";
import { StoreError } from "../store/store.ts";
import type { TokenIssuer } from "../tokens/issuer.ts";
import type { WorldServers } from "../world-servers.ts";
import type { MatchIndex } from "./match-index.ts";

/** A match that a function proposed for a profile. */
export interface Proposal extends MatchProposal {
  readonly profile: string;
}

/**
 * Chooses among the proposals of all profiles. What it returns of them is made in that order; a proposal
 * whose tickets are in an earlier one is passed over. Where it throws, no match is made at that look.
 */
export type Evaluate = (proposals: readonly Proposal[]) => readonly Proposal[];

/** What the parts of the director share. */
export interface DirectorContext {
  readonly replica: Replica;
  readonly matchIndex: MatchIndex;
  readonly servers: WorldServers;
  readonly issuer: TokenIssuer;
  readonly settings: MatchmakerSettings;
  readonly evaluate: Evaluate;
  readonly time: TimeSource;
  readonly emit: Emit;
  /** Makes ids that nothing else has. */
  readonly newId: () => string;
  /** The lease to lead; undefined while another matchmaker has it. */
  lease(): Lease | undefined;
  /** Worlds that a report had since this matchmaker leads. */
  readonly reportedWorlds: Set<string>;
  /** Whether a server may be dead, so that nobody is sent there now. */
  isSuspect(serverId: string): boolean;
  /** A server did not answer. */
  suspect(serverId: string): void;
  /** Calls for a look soon. */
  wake(): void;
}

/** Times that a change is made again after a conflict. Conflicts are with agents who cancel, one each. */
const maxConflicts = 100;

/**
 * Commits what `make` makes of the replica, again and again until no other commit comes between.
 *
 * @param make Returns undefined when there is nothing to do any more.
 * @returns Whether it was committed.
 * @throws StoreError `fenced` when this matchmaker does not lead any more, `unavailable` when nobody knows.
 */
export async function change(
  context: DirectorContext,
  make: () => readonly Change[] | undefined,
): Promise<boolean> {
  for (let attempt = 0; attempt < maxConflicts; attempt++) {
    const changes = make();
    if (changes === undefined || changes.length === 0) {
      return false;
    }
    if (await context.replica.commit(changes, leading(context))) {
      return true;
    }
  }
  throw new Error(`a change met another ${maxConflicts} times in a row`);
}

/**
 * The lease to lead.
 *
 * @throws StoreError `fenced` when this matchmaker does not lead.
 */
export function leading(context: DirectorContext): Lease {
  const lease = context.lease();
  if (lease !== undefined) {
    return lease;
  }
  throw new StoreError("fenced", "this matchmaker does not lead any more");
}
