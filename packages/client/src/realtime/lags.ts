// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

import type { RealtimeInfo } from "./realtime-environment.ts";

/** The fields of `info` that are lags or rates. */
export type LagNumbers = Pick<
  RealtimeInfo,
  | "observationLagMs"
  | "actionLagMs"
  | "rewardLagMs"
  | "roundTripMs"
  | "clockSkewMs"
  | "framesPerSecond"
>;

/** Weight of the newest interval in the frame rate. */
const smoothing = 0.1;

/**
 * Measures lags. If observations contain the world's own time, the exchange with the shortest round
 * trip determines the offset of the clocks, as in NTP. Otherwise, a response is assumed to have been
 * made half a round trip before it arrived.
 */
export class Lags {
  readonly #time: TimeSource;
  #roundTripMs: number | null = null;
  #shortestMs = Number.POSITIVE_INFINITY;
  #actionLagMs: number | null = null;
  #skewMs: number | null = null;
  #answeredAt: number | undefined;
  #intervalMs: number | null = null;

  constructor(time: TimeSource) {
    this.#time = time;
  }

  /**
   * Records a response.
   *
   * @param givenAt Time when the agent gave the action; undefined for a poll or a reset.
   * @param remoteMs The world's own time in the response, if it has one.
   * @returns The time when the observation was made, on this machine's clock.
   */
  answered(sentAt: number, givenAt: number | undefined, remoteMs: number | undefined): number {
    const now = this.#time.now();
    const roundTripMs = now - sentAt;
    this.#roundTripMs = roundTripMs;
    if (remoteMs !== undefined && roundTripMs <= this.#shortestMs) {
      this.#shortestMs = roundTripMs;
      this.#skewMs = remoteMs - (sentAt + now) / 2;
    }
    if (givenAt !== undefined) {
      this.#actionLagMs = sentAt - givenAt + roundTripMs / 2;
    }
    if (this.#answeredAt !== undefined) {
      const interval = now - this.#answeredAt;
      this.#intervalMs =
        this.#intervalMs === null
          ? interval
          : this.#intervalMs + smoothing * (interval - this.#intervalMs);
    }
    this.#answeredAt = now;
    return remoteMs !== undefined && this.#skewMs !== null
      ? remoteMs - this.#skewMs
      : now - roundTripMs / 2;
  }

  /** Returns the current lags of an observation, and of the oldest reward in its sum. */
  read(
    of: { readonly madeAt: number; readonly rewardedAt: number | undefined } | undefined,
  ): LagNumbers {
    const now = this.#time.now();
    return {
      observationLagMs: of === undefined ? null : now - of.madeAt,
      actionLagMs: this.#actionLagMs,
      rewardLagMs: of?.rewardedAt === undefined ? null : now - of.rewardedAt,
      roundTripMs: this.#roundTripMs,
      clockSkewMs: this.#skewMs,
      framesPerSecond:
        this.#intervalMs === null || this.#intervalMs === 0 ? null : 1_000 / this.#intervalMs,
    };
  }
}
