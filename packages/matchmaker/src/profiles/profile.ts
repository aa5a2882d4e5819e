// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import {
  DestroyMode,
  LostPolicy,
  type MatchProfile,
  MatchProfileSchema,
  Placement,
} from "@dm-env-rpc/protocol/matchmaker";
import { matchFunctionOf } from "../functions/of-profile.ts";
import type { MatchFunctions, ProfileMatch } from "../functions/profile-function.ts";
import { milliseconds } from "../model/durations.ts";
import type { Labels, MatchData, ProfileRecord } from "../model/model.ts";
import { type PoolFilter, poolFilter } from "./filters.ts";
import { type LatencyLimit, latencyLimitOf } from "./latency.ts";
import { matchData } from "./match-data.ts";

/** Policy for destroying a world with agents in it. */
export type DestroyPolicy = "drain" | "force" | "refuse";

/** Conditions for resets and destroys of worlds. A condition whose value is infinite never applies. */
export interface WorldPolicy {
  readonly resetAfterSequences: number;
  readonly resetEveryMs: number;
  readonly keepWhenEmpty: boolean;
  readonly destroyWhenIdleMs: number;
  readonly destroyAfterSequences: number;
  readonly destroy: DestroyPolicy;
  readonly drainMs: number;
}

/** Policy for placing the worlds of matches. */
export type PlacementPolicy = "packed" | "spread-worlds" | "spread-agents" | "spread-load";

/** A match profile, ready for use. */
export interface Profile {
  readonly name: string;
  readonly pools: readonly { readonly name: string; readonly fitsAfterMs: PoolFilter }[];
  readonly match: ProfileMatch;
  /** Number of seats of a world. */
  readonly seats: number;
  /** Size of the largest party that fits into a match. */
  readonly largestParty: number;
  readonly worldType: string;
  readonly placement: PlacementPolicy;
  /** Labels that a server must have to get the profile's worlds. */
  readonly serverLabels: Labels;
  /** Undefined if matches may be placed in any region. */
  readonly latencyLimit: LatencyLimit | undefined;
  /** A CreateWorldRequest's settings. */
  readonly settings: MatchProfile["worldSettings"];
  readonly policy: WorldPolicy;
  readonly backfill: boolean;
  readonly whenLost: "requeue" | "fail";
  readonly precreated: number;
  readonly seatMs: number;
  /** The pool of each team; empty if teams have no pools. */
  readonly poolOfTeam: ReadonlyMap<string, string>;
  /** The role of each team; empty if teams have no roles. */
  readonly roleOfTeam: ReadonlyMap<string, string>;
  /** Data of each match, for its world and its agents. */
  readonly data: MatchData;
}

/** Value of a condition that never applies. */
const never = Number.POSITIVE_INFINITY;
const defaultDrainMs = 30_000;
const defaultSeatMs = 30_000;

/**
 * Creates a profile from its message.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT, with the reason, if the profile can never make a match.
 */
export function profileOf(message: MatchProfile, functions: MatchFunctions): Profile {
  const { seats, ...match } = matchFunctionOf(message, functions);
  const policy = message.worldPolicy;
  return {
    name: message.name,
    pools: message.pools.map((pool) => ({ name: pool.name, fitsAfterMs: poolFilter(pool) })),
    match: match.match,
    poolOfTeam: match.poolOfTeam,
    roleOfTeam: match.roleOfTeam ?? new Map(),
    data: matchData(message.data ?? {}, "data"),
    seats: message.seats > 0 ? message.seats : seats,
    largestParty: match.largestParty,
    worldType: message.worldType,
    placement: placements.get(message.placement) ?? "packed",
    serverLabels: message.serverLabels,
    latencyLimit: message.latencyLimit && latencyLimitOf(message.latencyLimit),
    settings: message.worldSettings,
    policy: {
      resetAfterSequences: policy?.resetAfterSequences || never,
      resetEveryMs: milliseconds(policy?.resetEvery) ?? never,
      keepWhenEmpty: policy?.keepWhenEmpty ?? false,
      destroyWhenIdleMs: milliseconds(policy?.destroyWhenIdleFor) ?? never,
      destroyAfterSequences: policy?.destroyAfterSequences || never,
      destroy: destroyPolicies.get(policy?.destroyMode) ?? "drain",
      drainMs: milliseconds(policy?.drainTimeout) ?? defaultDrainMs,
    },
    backfill: message.backfill,
    whenLost: message.lostPolicy === LostPolicy.FAIL ? "fail" : "requeue",
    precreated: message.precreatedWorlds,
    seatMs: milliseconds(message.seatTimeout) ?? defaultSeatMs,
  };
}

const placements: ReadonlyMap<Placement, PlacementPolicy> = new Map([
  [Placement.SPREAD_WORLDS, "spread-worlds"],
  [Placement.SPREAD_AGENTS, "spread-agents"],
  [Placement.SPREAD_LOAD, "spread-load"],
]);

const destroyPolicies: ReadonlyMap<DestroyMode | undefined, DestroyPolicy> = new Map([
  [DestroyMode.FORCE, "force"],
  [DestroyMode.REFUSE, "refuse"],
]);

/** Policy of worlds whose profile was deleted: each world ends when its agents have left. */
export const policyWithoutProfile: WorldPolicy = {
  resetAfterSequences: never,
  resetEveryMs: never,
  keepWhenEmpty: false,
  destroyWhenIdleMs: 60_000,
  destroyAfterSequences: never,
  destroy: "drain",
  drainMs: defaultDrainMs,
};

/** Returns the stored form of a profile. */
export function profileRecord(message: MatchProfile): ProfileRecord {
  return { name: message.name, message: base64Encode(toBinary(MatchProfileSchema, message)) };
}

/** Returns the message of a stored profile. */
export function profileMessage(record: ProfileRecord): MatchProfile {
  return fromBinary(MatchProfileSchema, base64Decode(record.message));
}
