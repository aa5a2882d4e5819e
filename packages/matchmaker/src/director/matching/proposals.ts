// SPDX-License-Identifier: Apache-2.0
import { messageOf, toError } from "@dm-env-rpc/transport/internal";
import type {
  MatchFunction,
  MatchProposal,
  WaitingTicket,
} from "../../functions/match-function.ts";
import { partySizeOf } from "../../functions/parties.ts";
import { acceptsRegion, type LatencyLimit } from "../../profiles/latency.ts";
import { matchData } from "../../profiles/match-data.ts";
import type { Profile } from "../../profiles/profile.ts";
import type { DirectorContext, Proposal } from "../context.ts";
import type { WorldTasks } from "../worlds/world-tasks.ts";

/** Maximum number of faults that are reported individually for one run of a match function. */
const maxFaults = 10;

/**
 * Requests at most `most` matches of a profile from a built-in match function. Impossible proposals
 * are skipped. If the function throws, its earlier proposals are used.
 */
export function propose(
  context: DirectorContext,
  profile: Profile,
  match: MatchFunction,
  most: number,
  isOffered?: (ticket: WaitingTicket) => boolean,
): readonly Proposal[] {
  const { matchIndex, replica } = context;
  const all = most === 0 ? undefined : matchIndex.poolsOf(profile.name);
  if (all === undefined) {
    return [];
  }
  const pools =
    isOffered === undefined
      ? all
      : new Map([...all].map(([name, tickets]) => [name, tickets.filter(isOffered)]));
  const proposals = new Proposals(context, profile, (id) => matchIndex.isInPools(profile.name, id));
  try {
    const matches = match({
      profile: profile.name,
      parameters: {},
      pools,
      nowMs: replica.now(),
    });
    for (const proposed of matches) {
      proposals.add(proposed);
      if (proposals.asked >= most) {
        break;
      }
    }
  } catch (error) {
    proposals.bad(toError(error));
  }
  proposals.end();
  return proposals.made;
}

/**
 * Requests matches from a built-in match function for each region separately. The function is offered only
 * tickets that accept the region.
 *
 * @param rooms For each region, the number of matches that fit.
 */
export function proposeByRegion(
  context: DirectorContext,
  profile: Profile,
  limit: LatencyLimit,
  match: MatchFunction,
  rooms: ReadonlyMap<string, number>,
): readonly Proposal[] {
  const nowMs = context.replica.now();
  const used = new Set<string>();
  const made: Proposal[] = [];
  for (const [region, most] of rooms) {
    const isOffered = (ticket: WaitingTicket): boolean =>
      !used.has(ticket.id) && acceptsRegion(limit, ticket, region, nowMs);
    for (const proposal of propose(context, profile, match, most, isOffered)) {
      made.push(proposal);
      for (const { id } of Object.values(proposal.teams).flat()) {
        used.add(id);
      }
    }
  }
  return made;
}

/**
 * The proposals of one run of a match function. Impossible proposals are skipped. The first ten impossible
 * proposals are reported individually.
 */
export class Proposals {
  readonly made: Proposal[] = [];
  /** Number of added proposals, including faulty ones. */
  asked = 0;
  readonly #context: DirectorContext;
  readonly #profile: Profile;
  readonly #isOffered: (ticketId: string) => boolean;
  readonly #used = new Set<string>();
  #faults = 0;

  /** @param isOffered Returns true for tickets that the function may propose. */
  constructor(
    context: DirectorContext,
    profile: Profile,
    isOffered: (ticketId: string) => boolean,
  ) {
    this.#context = context;
    this.#profile = profile;
    this.#isOffered = isOffered;
  }

  /** Adds a proposal if it is possible. */
  add(match: MatchProposal): void {
    this.asked += 1;
    const fault = this.#faultIn(match);
    if (fault === undefined) {
      for (const { id } of Object.values(match.teams).flat()) {
        this.#used.add(id);
      }
      const { teams, score, data } = match;
      this.made.push({ teams, score, data, profile: this.#profile.name });
      return;
    }
    this.#faults += 1;
    if (this.#faults <= maxFaults) {
      this.bad(new Error(fault));
    }
  }

  /** Reports a fault. */
  bad(error: Error): void {
    this.#context.emit({ kind: "bad-proposal", profile: this.#profile.name, error });
  }

  /** Reports the number of faults that were not reported individually. */
  end(): void {
    const more = this.#faults - maxFaults;
    if (more > 0) {
      this.bad(new Error(`impossible proposals after the first ${maxFaults}: ${more}`));
    }
  }

  #partySizeOf(ticketId: string): number {
    return partySizeOf(this.#context.matchIndex.waiting.get(ticketId) ?? {});
  }

  #faultIn({ teams, score = 0, data }: MatchProposal): string | undefined {
    const ids = Object.values(teams)
      .flat()
      .map(({ id }) => id);
    const { seats } = this.#profile;
    const agents = ids.reduce((sum, id) => sum + this.#partySizeOf(id), 0);
    if (agents === 0 || agents > seats) {
      return `expected a match of 1 to ${seats} agents, received one of ${agents}`;
    }
    if (typeof score !== "number" || Number.isNaN(score)) {
      return `expected a number as score, received ${String(score)}`;
    }
    if (new Set(ids).size < ids.length) {
      return "expected each ticket once, received a ticket twice";
    }
    if (data !== undefined) {
      try {
        matchData({ ...this.#profile.data, ...data }, "data of the match");
      } catch (error) {
        return messageOf(error);
      }
    }
    const taken = ids.find((id) => this.#used.has(id));
    if (taken !== undefined) {
      return `expected tickets that no earlier proposal of this run contains, received "${taken}"`;
    }
    const unknown = ids.find((id) => !this.#isOffered(id));
    if (unknown !== undefined) {
      return `expected tickets of the profile's pools, received "${unknown}"`;
    }
    return undefined;
  }
}

/** Key of the cooldown after a failure of `evaluate`. */
const evaluateKey = "evaluate";

/**
 * Returns the proposals that become matches, in order. If `evaluate` fails or takes too long, the default choice replaces
 * it for `cooldownMs`, so that the profiles still get matches.
 */
export function chosenOf(
  context: DirectorContext,
  tasks: WorldTasks,
  proposals: readonly Proposal[],
): Proposal[] {
  const bad = (error: Error): void =>
    context.emit({ kind: "step-failed", step: "evaluate", error });
  if (tasks.isCooling(evaluateKey)) {
    return bestFirst(proposals);
  }
  const limitMs = context.settings.matchFunctionMs;
  try {
    const beganMs = context.time.now();
    const chosen = context.evaluate(proposals);
    const heldMs = context.time.now() - beganMs;
    // The rejection of a promise would otherwise be unhandled.
    if (chosen instanceof Promise) {
      chosen.catch((error: unknown) => bad(toError(error)));
    }
    const proposed = new Set(proposals);
    const made = [...chosen].filter((proposal) => proposed.has(proposal));
    const strange = chosen.length - made.length;
    if (strange > 0) {
      bad(
        new Error(
          `evaluate: expected only proposals from its argument, received others: ${strange}`,
        ),
      );
    }
    if (heldMs > limitMs) {
      tasks.failed(evaluateKey, heldMs);
      bad(
        new Error(
          `evaluate held up the whole matchmaker: expected at most ${limitMs} ms, received ${Math.round(heldMs)} ms; make it faster (limit: matchFunctionMs). Until it is called again, matches are chosen by score, priority and age`,
        ),
      );
    } else {
      tasks.succeeded(evaluateKey);
    }
    return made;
  } catch (error) {
    tasks.failed(evaluateKey);
    bad(
      new Error(
        `evaluate failed: ${messageOf(error)}. Until it is called again, matches are chosen by score, priority and age`,
        { cause: error },
      ),
    );
    return bestFirst(proposals);
  }
}

/** Sorts by score, then by priority, then by the age of the oldest ticket. */
export function bestFirst(proposals: readonly Proposal[]): Proposal[] {
  return proposals
    .map((proposal) => ({
      proposal,
      score: proposal.score ?? 0,
      priority: priorityOf(proposal),
      oldest: oldestOf(proposal),
    }))
    .sort((a, b) => b.score - a.score || b.priority - a.priority || a.oldest - b.oldest)
    .map(({ proposal }) => proposal);
}

/** Returns the highest priority of a proposal's tickets. */
function priorityOf({ teams }: Proposal): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const team of Object.values(teams)) {
    for (const { priority = 0 } of team) {
      highest = Math.max(highest, priority);
    }
  }
  return highest;
}

function oldestOf({ teams }: Proposal): number {
  let oldest = Number.POSITIVE_INFINITY;
  for (const team of Object.values(teams)) {
    for (const { createdMs } of team) {
      oldest = Math.min(oldest, createdMs);
    }
  }
  return oldest;
}
