// SPDX-License-Identifier: Apache-2.0

/**
 * Selects the observations that are checked against the bounds of their specs: all (`always`), one
 * in 61 (`sampled`) or none (`off`). Dtype and shape are always checked, so that a response is
 * never malformed.
 */
export type ObservationChecks = "always" | "sampled" | "off";

/**
 * A prime number, so that each observation is checked in turn if an agent requests the same few in
 * every step.
 */
export const sampleEvery = 61;
