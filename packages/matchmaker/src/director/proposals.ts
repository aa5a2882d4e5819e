// SPDX-License-Identifier: Apache-2.0
import { toError } from "../errors.ts";
import type { Profile } from "../profile.ts";
import type { DirectorContext, Proposal } from "./context.ts";

/**
 * Asks the match function of a profile for at most `most` matches. What it proposes and cannot be is
 * passed over; when it throws, what it proposed before counts.
 */
export function propose(context: DirectorContext, profile: Profile, most: number): Proposal[] {
  if (most <= 0) return [];
  const pools = context.picture.poolsOf(profile.name);
  if (pools === undefined) return [];
  const proposals: Proposal[] = [];
  const used = new Set<string>();
  const bad = (error: unknown): void =>
    context.emit({ kind: "bad-proposal", profile: profile.name, error: toError(error) });
  try {
    const matches = profile.match({
      profile: profile.name,
      parameters: {},
      pools,
      nowMs: context.view.now(),
    });
    let asked = 0;
    for (const match of matches) {
      const fault = faultIn(context, profile, match, used);
      if (fault === undefined) {
        for (const { id } of Object.values(match.teams).flat()) used.add(id);
        proposals.push({ teams: match.teams, score: match.score, profile: profile.name });
      } else bad(new Error(fault));
      asked += 1;
      if (asked >= most) break;
    }
  } catch (error) {
    bad(error);
  }
  return proposals;
}

function faultIn(
  { picture }: DirectorContext,
  profile: Profile,
  { teams }: Proposal | { readonly teams: Proposal["teams"] },
  used: ReadonlySet<string>,
): string | undefined {
  const ids = Object.values(teams)
    .flat()
    .map(({ id }) => id);
  if (ids.length === 0 || ids.length > profile.seats) {
    return `expected a match of 1 to ${profile.seats} tickets, received one of ${ids.length}`;
  }
  if (new Set(ids).size < ids.length) return "expected each ticket once, received one twice";
  const taken = ids.find((id) => used.has(id));
  if (taken !== undefined) {
    return `expected tickets of no earlier proposal, received "${taken}" again`;
  }
  const unknown = ids.find((id) => !picture.waiting.has(id));
  if (unknown !== undefined) {
    return `expected tickets of the profile's pools, received "${unknown}"`;
  }
  return undefined;
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
