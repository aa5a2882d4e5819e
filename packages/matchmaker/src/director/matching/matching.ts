// SPDX-License-Identifier: Apache-2.0
import type { TraceSpan } from "@dm-env-rpc/transport/internal/tracing";
import type { Match, ServerRecord, Ticket, World } from "../../model/model.ts";
import { hasLabels } from "../../profiles/labels.ts";
import { acceptsRegion, regionsFor } from "../../profiles/latency.ts";
import type { Profile } from "../../profiles/profile.ts";
import { put } from "../../replica/replica.ts";
import type { Change, Stored } from "../../store/store.ts";
import { commit, type DirectorContext, type Proposal } from "../context.ts";
import { Slice } from "../slice.ts";
import { conflict, endMatchSpan, startMatchSpan } from "../spans.ts";
import type { WorldTasks } from "../worlds/world-tasks.ts";
import {
  announce,
  assign,
  type JoinableWorld,
  joinable,
  type OpenWorld,
  partiesOf,
  reserve,
  rosterOf,
} from "./assignments.ts";
import type { MatchRuns } from "./match-runs.ts";
import { type Placement, regionOf } from "./placement.ts";
import { chosenOf, propose, proposeByRegion } from "./proposals.ts";

/** Matches per commit. */
const batchSize = 50;

/** A match that is to be committed. */
interface Plan {
  readonly match: Match;
  readonly changes: readonly Change[];
  /** World and tickets of a match whose world already exists. */
  readonly ready: { readonly world: OpenWorld; readonly tickets: readonly Ticket[] } | undefined;
  readonly span: TraceSpan;
}

/**
 * Makes matches of waiting tickets as far as servers have room: proposes, evaluates and places matches. Then
 * claims the tickets and the room of each match in one commit. While the store makes the commit, the next
 * matches are planned. If no server has room for a match, its tickets keep waiting.
 */
export async function makeMatches(
  context: DirectorContext,
  placement: Placement,
  runs: MatchRuns,
  tasks: WorldTasks,
): Promise<void> {
  const { matchIndex, settings, time } = context;
  if (matchIndex.waiting.size === 0) {
    return;
  }
  const slice = new Slice(time);
  const proposals: Proposal[] = [];
  /** Spare worlds by profile. */
  const spares = new Map<string, readonly JoinableWorld[]>();
  for (const profile of matchIndex.profiles.values()) {
    await slice.next();
    const ready = sparesFor(context, profile);
    spares.set(profile.name, ready);
    const room = placement.room(profile) + ready.length;
    const most = Math.min(room, settings.maxMatchesPerTick);
    const { latencyLimit } = profile;
    const { isCustom, run } = profile.match;
    if (isCustom) {
      proposals.push(...runs.take(profile, run, most));
    } else if (latencyLimit === undefined) {
      proposals.push(...propose(context, profile, run, most));
    } else {
      const rooms = roomByRegion(context, placement, profile, ready);
      proposals.push(...proposeByRegion(context, profile, latencyLimit, run, rooms));
    }
  }
  const used = new Set<string>();
  let planned = 0;
  const usedSpares = new Set<string>();
  let plans: Plan[] = [];
  const claims: Promise<void>[] = [];
  let failure: unknown;
  const claimPlans = async (): Promise<void> => {
    const claimed = claim(context, plans).catch((error: unknown) => {
      failure ??= error;
    });
    claims.push(claimed);
    plans = [];
    await slice.next();
  };
  for (const proposal of chosenOf(context, tasks, proposals)) {
    if (planned >= settings.maxMatchesPerTick || failure !== undefined) {
      break;
    }
    const ids = Object.values(proposal.teams)
      .flat()
      .map(({ id }) => id);
    const tickets = stillWaiting(context, ids);
    if (tickets === undefined || ids.some((id) => used.has(id))) {
      continue;
    }
    const plan = await planFor(context, placement, proposal, tickets, spares, usedSpares);
    if (plan === undefined) {
      continue;
    }
    for (const id of ids) {
      used.add(id);
    }
    plans.push(plan);
    planned += 1;
    if (plans.length >= batchSize) {
      await claimPlans();
    }
  }
  await claimPlans();
  await Promise.all(claims);
  if (failure !== undefined) {
    throw failure;
  }
}

/**
 * Commits plans together. Plans that conflict are dropped, and their tickets wait for the next tick.
 */
async function claim(context: DirectorContext, plans: readonly Plan[]): Promise<void> {
  const { emit } = context;
  let left = plans;
  const commitLeft = (): Promise<boolean> =>
    commit(
      context,
      left.flatMap(({ changes }) => changes),
    );
  // A commit of no plans succeeds.
  while (!(await commitLeft())) {
    // After a conflict the replica has the current records.
    const current = left.filter(({ changes }) => changes.every((each) => isCurrent(context, each)));
    // If every plan looks current, it is unknown which of them conflicted. So all plans are dropped, and the next
    // tick plans the matches again.
    const kept = new Set(current.length === left.length ? [] : current);
    for (const plan of left) {
      if (!kept.has(plan)) {
        plan.span.end(conflict());
      }
    }
    left = [...kept];
  }
  for (const { match, ready, span } of left) {
    endMatchSpan(span, match);
    const { id: matchId, profile, serverId } = match;
    emit({ kind: "matched", matchId, profile, serverId, tickets: rosterOf(match).length });
    if (ready !== undefined) {
      announce(context, match, ready.world, ready.tickets);
    }
  }
}

function isCurrent({ replica }: DirectorContext, change: Change): boolean {
  return (replica.get(change.kind, change.id)?.version ?? 0) === change.version;
}

/** Returns the spare worlds that matches of a profile can use. Worlds created for the profile are first. */
function sparesFor(context: DirectorContext, profile: Profile): JoinableWorld[] {
  const { matchIndex } = context;
  const takesAny = Object.keys(profile.settings).length === 0;
  return (takesAny ? [profile.name, ""] : [profile.name])
    .flatMap((kind) => [...matchIndex.spares.get(kind).keys()])
    .flatMap((id) => joinable(context, id) ?? [])
    .filter(
      ({ stored, server }) =>
        stored.value.type === profile.worldType && hasLabels(server, profile.serverLabels),
    );
}

/** Returns, for each region, the number of a profile's matches that fit. */
function roomByRegion(
  context: DirectorContext,
  placement: Placement,
  profile: Profile,
  ready: readonly JoinableWorld[],
): Map<string, number> {
  const rooms = new Map<string, number>();
  const add = (region: string, room: number): void => {
    const sum = (rooms.get(region) ?? 0) + room;
    rooms.set(region, Math.min(sum, context.settings.maxMatchesPerTick));
  };
  for (const region of placement.regionsFor(profile)) {
    add(region, placement.room(profile, region));
  }
  for (const { server } of ready) {
    add(regionOf(server), 1);
  }
  return rooms;
}

async function planFor(
  context: DirectorContext,
  placement: Placement,
  proposal: Proposal,
  tickets: readonly Stored<Ticket>[],
  spares: ReadonlyMap<string, readonly JoinableWorld[]>,
  usedSpares: Set<string>,
): Promise<Plan | undefined> {
  const profile = context.matchIndex.profiles.get(proposal.profile);
  if (profile === undefined) {
    return undefined;
  }
  const { latencyLimit } = profile;
  const nowMs = context.replica.now();
  const waiting = tickets.map(({ value }) => value);
  const isAccepted = (region: string): boolean =>
    latencyLimit === undefined ||
    waiting.every((ticket) => acceptsRegion(latencyLimit, ticket, region, nowMs));
  // A spare world may already be used by another match of this tick.
  const spare = spares
    .get(profile.name)
    ?.find(
      ({ stored, server }) => !usedSpares.has(stored.value.id) && isAccepted(regionOf(server)),
    );
  if (spare !== undefined) {
    usedSpares.add(spare.stored.value.id);
    return await planInSpare(context, profile, proposal, spare, waiting);
  }
  const regions =
    latencyLimit === undefined
      ? [undefined]
      : regionsFor(latencyLimit, waiting, placement.regionsFor(profile), nowMs);
  for (const region of regions) {
    const server = placement.take(profile, region);
    if (server !== undefined) {
      return planOnServer(context, profile, proposal, server, tickets);
    }
  }
  return undefined;
}

/** Plans a match in an existing world. The commit that makes the match also assigns its tickets. */
async function planInSpare(
  context: DirectorContext,
  profile: Profile,
  proposal: Proposal,
  { stored, world }: JoinableWorld,
  proposed: readonly Ticket[],
): Promise<Plan | undefined> {
  const { replica } = context;
  const { id: worldId, serverId, seats: worldSeats } = stored.value;
  const span = startMatchSpan("match", profile.name, proposed);
  const where = { worldId, serverId, state: "live", traceparent: span.traceparent } as const;
  const match = matchOf(context, proposal, where);
  const seats = await reserve(context, profile, match, world, rosterOf(match));
  const tickets = stillWaiting(context, rosterOf(match));
  if (tickets === undefined) {
    span.end(conflict());
    return undefined;
  }
  const changes = [
    put("match", match.id, undefined, match),
    put("world", worldId, stored, {
      ...stored.value,
      matchId: match.id,
      seats: Math.max(worldSeats, profile.seats),
      emptySinceMs: replica.now(),
    }),
    ...assign(match, tickets, seats),
  ];
  return { match, changes, ready: { world, tickets: tickets.map(({ value }) => value) }, span };
}

/** Returns the tickets with these ids; undefined unless all of them are still waiting. */
function stillWaiting(
  { replica, matchIndex }: DirectorContext,
  ids: readonly string[],
): Stored<Ticket>[] | undefined {
  const tickets = ids
    .filter((id) => matchIndex.waiting.has(id))
    .flatMap((id) => replica.get("ticket", id) ?? []);
  return tickets.length === ids.length ? tickets : undefined;
}

/** Plans a match whose world is still to be created. */
function planOnServer(
  context: DirectorContext,
  profile: Profile,
  proposal: Proposal,
  server: ServerRecord,
  tickets: readonly Stored<Ticket>[],
): Plan {
  const worldId = context.newId();
  const values = tickets.map(({ value }) => value);
  const span = startMatchSpan("match", profile.name, values);
  const { traceparent } = span;
  const where = { worldId, serverId: server.id, state: "placed", traceparent } as const;
  const match = matchOf(context, proposal, where);
  const changes: Change[] = [
    put("match", match.id, undefined, match),
    put("world", worldId, undefined, newWorld(context, profile, server, worldId, match.id)),
  ];
  for (const ticket of tickets) {
    const matched = { ...ticket.value, state: "matched", matchId: match.id } as const;
    changes.push(put("ticket", ticket.value.id, ticket, { ...matched, reason: undefined }));
  }
  return { match, changes, ready: undefined, span };
}

/** Returns the record of a world to create. */
export function newWorld(
  { replica }: DirectorContext,
  profile: Profile,
  server: { readonly id: string; readonly address: string },
  id: string,
  matchId: string | undefined,
): World {
  const nowMs = replica.now();
  return {
    id,
    serverId: server.id,
    address: server.address,
    profile: profile.name,
    type: profile.worldType,
    seats: profile.seats,
    state: "creating",
    matchId,
    createdMs: nowMs,
    openedMs: 0,
    used: false,
    emptySinceMs: nowMs,
    resetMs: nowMs,
    resetSequences: 0,
  };
}

function matchOf(
  { replica, newId }: DirectorContext,
  { profile, teams, data }: Proposal,
  where: Pick<Match, "worldId" | "serverId" | "state" | "traceparent">,
): Match {
  return {
    id: newId(),
    profile,
    ...where,
    teams: Object.entries(teams).map(([name, tickets]) => ({
      name,
      tickets: tickets.map(({ id }) => id),
    })),
    ...partiesOf(Object.values(teams).flat()),
    data,
    vacancies: [],
    createdMs: replica.now(),
  };
}
