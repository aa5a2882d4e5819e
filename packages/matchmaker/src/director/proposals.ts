// SPDX-License-Identifier: Apache-2.0
import { toError } from "@dm-env-rpc/transport/internal";
import type { MatchProposal } from "../functions/match-function.ts";
import type { Ticket } from "../model.ts";
import type { Profile } from "../profile.ts";
import type { DirectorContext, Proposal } from "./context.ts";

/** Faults of one look that are told one by one. */
const maxFaults = 10;

/**
 * Asks the match function of a profile for at most `most` matches. What it proposes and cannot be is
 * passed over; when it throws, what it proposed before counts.
 */
export function propose(context: DirectorContext, profile: Profile, most: number): Proposal[] {
  if (most <= 0) return [];
  const pools = context.matchIndex.poolsOf(profile.name);
  if (pools === undefined) return [];
  const proposals: Proposal[] = [];
  const used = new Set<string>();
  const bad = (error: unknown): void =>
    context.emit({ kind: "bad-proposal", profile: profile.name, error: toError(error) });
  let faults = 0;
  try {
    const matches = profile.match({
      profile: profile.name,
      parameters: {},
      pools,
      nowMs: context.replica.now(),
    });
    // Nobody else would hear why it rejects.
    if (matches instanceof Promise) matches.catch(bad);
    let asked = 0;
    for (const match of matches) {
      const fault = faultIn(context, profile, match, used);
      if (fault === undefined) {
        for (const { id } of Object.values(match.teams).flat()) used.add(id);
        proposals.push({ teams: match.teams, score: match.score, profile: profile.name });
      } else {
        faults += 1;
        if (faults <= maxFaults) bad(new Error(fault));
      }
      asked += 1;
      if (asked >= most) break;
    }
  } catch (error) {
    bad(error);
  }
  if (faults > maxFaults) bad(new Error(`${faults - maxFaults} more proposals cannot be`));
  return proposals;
}

function faultIn(
  { matchIndex }: DirectorContext,
  profile: Profile,
  { teams, score = 0 }: MatchProposal,
  used: ReadonlySet<string>,
): string | undefined {
  const ids = Object.values(teams)
    .flat()
    .map(({ id }) => id);
  if (ids.length === 0 || ids.length > profile.seats) {
    return `expected a match of 1 to ${profile.seats} tickets, received one of ${ids.length}`;
  }
  if (typeof score !== "number" || Number.isNaN(score)) {
    return `expected a number as score, received ${String(score)}`;
  }
  if (new Set(ids).size < ids.length) return "expected each ticket once, received one twice";
  const taken = ids.find((id) => used.has(id));
  if (taken !== undefined) {
    return `expected tickets of no earlier proposal, received "${taken}" again`;
  }
  const unknown = ids.find((id) => {
    const ticket = matchIndex.waiting.get(id);
    return ticket === undefined || !isInPools(profile, ticket);
  });
  if (unknown !== undefined) {
    return `expected tickets of the profile's pools, received "${unknown}"`;
  }
  return undefined;
}

function isInPools({ name, pools }: Profile, { profile, search }: Ticket): boolean {
  return (profile === "" || profile === name) && pools.some(({ fits }) => fits(search));
}

/** Asks which proposals are made, and in which order: where the evaluation fails, none at this look. */
export function chosenOf(context: DirectorContext, proposals: readonly Proposal[]): Proposal[] {
  const bad = (error: unknown): void =>
    context.emit({ kind: "step-failed", step: "evaluate", error: toError(error) });
  try {
    const chosen = context.evaluate(proposals);
    // Nobody else would hear why it rejects.
    if (chosen instanceof Promise) chosen.catch(bad);
    const proposed = new Set(proposals);
    const made = [...chosen].filter((proposal) => proposed.has(proposal));
    const strange = chosen.length - made.length;
    if (strange > 0) {
      bad(new Error(`expected proposals that it was given, received ${strange} that are none`));
    }
    return made;
  } catch (error) {
    bad(error);
    return [];
  }
}

/** The best matches first; of those with the same score, the one with the oldest ticket. */
export function bestFirst(proposals: readonly Proposal[]): readonly Proposal[] {
  if (proposals.length < 2) return proposals;
  return proposals
    .map((proposal) => ({ proposal, score: proposal.score ?? 0, oldest: oldestOf(proposal) }))
    .sort((a, b) => b.score - a.score || a.oldest - b.oldest)
    .map(({ proposal }) => proposal);
}

function oldestOf({ teams }: Proposal): number {
  let oldest = Number.POSITIVE_INFINITY;
  for (const team of Object.values(teams)) {
    for (const { createdMs } of team) oldest = Math.min(oldest, createdMs);
  }
  return oldest;
}
