// SPDX-License-Identifier: Apache-2.0
import type { Unseen } from "../check.ts";

/** Parts of behaviours that a client cannot observe on any server. */
export const unseen: readonly Unseen[] = [
  {
    behaviour: 7,
    what: "An error carries everything that the server would log about it.",
    reason: "a client cannot see the server's log",
  },
  {
    behaviour: 13,
    what: "Elements of every dtype survive, bit for bit.",
    reason: "worlds do not return what they received",
  },
  {
    behaviour: 20,
    what: "Tensors of one value can be sent as one element.",
    reason: "compression is the sender's choice, and every receiver must accept both forms",
  },
  {
    behaviour: 31,
    what: "Only requested observations are computed.",
    reason: "a client sees only the observations that are sent",
  },
  {
    behaviour: 43,
    what: "After a deadline, a reset of the world happens even if agents have not received INTERRUPTED.",
    reason: "the server chooses the deadline, which may be long",
  },
  {
    behaviour: 63,
    what: "Rewards add up from one response to the next.",
    reason: "only the world knows the right reward",
  },
  {
    behaviour: 72,
    what: "A failure of a slot interrupts only that slot.",
    reason: "a client cannot make an environment fail",
  },
];
