// SPDX-License-Identifier: Apache-2.0
import type { Unseen } from "../check.ts";

/** The lines that no client can see kept. */
export const unseen: readonly Unseen[] = [
  {
    behaviour: 20,
    reason: "to compress is the sender's choice, and every receiver must take both",
  },
  { behaviour: 63, reason: "which reward is the right one, only the world knows" },
];
