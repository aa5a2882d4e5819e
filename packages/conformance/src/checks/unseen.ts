// SPDX-License-Identifier: Apache-2.0
import type { Unseen } from "../check.ts";

/** What no client can see kept, of any server. */
export const unseen: readonly Unseen[] = [
  {
    behaviour: 7,
    what: "An error carries all that the server would log about it.",
    reason: "what is logged, only the server knows",
  },
  {
    behaviour: 13,
    what: "Elements of every dtype survive, bit for bit.",
    reason: "worlds do not say what they received",
  },
  {
    behaviour: 20,
    what: "Tensors of one value can be sent as one element.",
    reason: "to compress is the sender's choice, and every receiver must take both",
  },
  {
    behaviour: 31,
    what: "What is not requested is not computed.",
    reason: "a client sees what is sent, not what was computed",
  },
  {
    behaviour: 43,
    what: "After a deadline a reset of the world happens, whoever has not been told.",
    reason: "the deadline is the server's, and may be long",
  },
  {
    behaviour: 63,
    what: "Rewards add up from one response to the next.",
    reason: "which reward is the right one, only the world knows",
  },
];
