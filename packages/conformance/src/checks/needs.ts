// SPDX-License-Identifier: Apache-2.0
import type { Check } from "../check.ts";
import { agentCounts, type ClockName, clockNames } from "../config.ts";

type Need = NonNullable<Check["notFor"]>;

/** Requires several agents in one world. */
export function needsSeveral(count: number): Need {
  return (config) =>
    agentCounts(config).max >= count ? undefined : `"agents" of the config is below ${count}`;
}

/** Requires a world with short sequences. */
export const needsShortSequence: Need = ({ shortSequence, worlds }) =>
  shortSequence === undefined || worlds === "none"
    ? 'the config has no "shortSequence"'
    : undefined;

/** Requires that worlds can be created. */
export const needsCreate: Need = ({ worlds }) =>
  worlds === "none" ? "no world can be created" : undefined;

/** Requires several worlds at a time. */
export const needsManyWorlds: Need = ({ worlds = "many" }) =>
  worlds === "many" ? undefined : `"worlds" of the config is "${worlds}"`;

/** Requires one of the given clocks. */
export function needsClock(...clocks: readonly ClockName[]): Need {
  return ({ clock }) =>
    clock !== undefined && clocks.includes(clock)
      ? undefined
      : `"clock" of the config is ${clock === undefined ? "not given" : `"${clock}"`}`;
}

/** True for a clock on which a step waits for the steps of other agents. */
const waits: Readonly<Record<ClockName, boolean>> = {
  lockstep: true,
  turns: true,
  realtime: false,
  freeRunning: false,
  wakeUp: true,
};

/** Requires a clock on which a step waits for the steps of other agents. */
export const needsWaiting: Need = needsClock(...clockNames.filter((name) => waits[name]));

/** Requires a clock on which no step waits for the steps of other agents. */
export const needsNoWaiting: Need = needsClock(...clockNames.filter((name) => !waits[name]));

/** Requires worlds that can be joined as a batch. */
export const needsBatches: Need = ({ batches }) =>
  batches === true ? undefined : 'the config has no "batches"';

/** Requires worlds that a stream can join with several seats. */
export const needsSeats: Need = ({ seats }) =>
  seats === true ? undefined : 'the config has no "seats"';

/** Combines several needs. */
export function needsAll(...needs: readonly Need[]): Need {
  return (config, protocol) => {
    for (const need of needs) {
      const reason = need(config, protocol);
      if (reason !== undefined) {
        return reason;
      }
    }
    return undefined;
  };
}
