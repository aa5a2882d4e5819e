// SPDX-License-Identifier: Apache-2.0

import type { Duration } from "@bufbuild/protobuf/wkt";
import type { MatchProfile } from "@dm-env-rpc/protocol/matchmaker";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { messageOf, shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";
import { matchFunctionOf } from "../functions/of-profile.ts";
import type { MatchFunctions } from "../functions/profile-function.ts";
import { milliseconds } from "../model/durations.ts";
import { checkPool } from "./filters.ts";
import { checkLabels } from "./labels.ts";
import { matchData } from "./match-data.ts";
import { checkName, maxWorldTypeLength } from "./names.ts";

const maxPools = 100;
const maxPrecreated = 1_000;

/**
 * Checks the limits of a profile, and looks for mistakes that prevent all of its matches.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the mistake.
 */
export function checkProfile(profile: MatchProfile, functions: MatchFunctions): void {
  if (profile.name === "" || profile.name.length > 200) {
    throw invalid("name", "a name of 1 to 200 characters", `"${shorten(profile.name)}"`);
  }
  if (profile.worldType === "") {
    throw invalid("world_type", "a type of world that servers register", "none");
  }
  checkName("world_type", profile.worldType, maxWorldTypeLength);
  if (profile.pools.length === 0 || profile.pools.length > maxPools) {
    throw invalid(
      "pools",
      `1 to ${maxPools} (a pool without filters contains every ticket)`,
      String(profile.pools.length),
    );
  }
  const names = new Set<string>();
  for (const pool of profile.pools) {
    if (names.has(pool.name)) {
      throw invalid("pools", "a unique name for each pool", `"${shorten(pool.name)}" twice`);
    }
    names.add(pool.name);
    checkPool(pool);
  }
  for (const [name, setting] of Object.entries(profile.worldSettings)) {
    try {
      unpackTensor(setting);
    } catch (error) {
      throw invalid(`world_settings "${shorten(name)}"`, "a tensor", messageOf(error));
    }
  }
  matchData(profile.data ?? {}, "data");
  checkLabels("server_labels", profile.serverLabels);
  if (profile.precreatedWorlds > maxPrecreated) {
    throw invalid(
      "precreated_worlds",
      `at most ${maxPrecreated}`,
      String(profile.precreatedWorlds),
    );
  }
  const { worldPolicy: policy } = profile;
  for (const [name, duration] of Object.entries({
    seat_timeout: profile.seatTimeout,
    reset_every: policy?.resetEvery,
    destroy_when_idle_for: policy?.destroyWhenIdleFor,
    drain_timeout: policy?.drainTimeout,
    "latency_limit.drop_after": profile.latencyLimit?.dropAfter,
    ...dropsOf(profile),
  })) {
    if (duration !== undefined && milliseconds(duration) === undefined) {
      throw invalid(name, "a duration greater than 0", `${duration.seconds} s`);
    }
  }
  for (const [name, value] of Object.entries({
    max_ms: profile.latencyLimit?.maxMs,
    widen_per_second: profile.latencyLimit?.widenPerSecond,
  })) {
    if (value !== undefined && !(value >= 0)) {
      throw invalid(`latency_limit.${name}`, "a number of at least 0", String(value));
    }
  }
  const { seats } = matchFunctionOf(profile, functions);
  if (profile.seats > 0 && profile.seats < seats) {
    throw invalid("seats", `at least the ${seats} that a match fills`, String(profile.seats));
  }
}

/** Returns the `drop_after` of each filter of the pools. The keys name the filters in errors. */
function dropsOf({ pools }: MatchProfile): Record<string, Duration | undefined> {
  const drops: Record<string, Duration | undefined> = {};
  for (const { name, doubleRangeFilters, stringEqualsFilters, tagPresentFilters } of pools) {
    const filters = [
      ...doubleRangeFilters.map(({ doubleArg, dropAfter }) => [doubleArg, dropAfter] as const),
      ...stringEqualsFilters.map(({ stringArg, dropAfter }) => [stringArg, dropAfter] as const),
      ...tagPresentFilters.map(({ tag, dropAfter }) => [tag, dropAfter] as const),
    ];
    for (const [arg, dropAfter] of filters) {
      drops[`pool "${shorten(name)}": drop_after of "${shorten(arg)}"`] = dropAfter;
    }
  }
  return drops;
}
