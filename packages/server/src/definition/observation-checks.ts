// SPDX-License-Identifier: Apache-2.0

/**
 * Which observations are checked against the bounds of their specs: all (`always`), one in
 * 61 (`sampled`) or none (`off`). Dtype and shape are always checked: a response
 * is never malformed.
 */
export type ObservationChecks = "always" | "sampled" | "off";

/** A prime, so that each observation is checked in turn when an agent requests the same few every step. */
export const sampleEvery = 61;
