// SPDX-License-Identifier: Apache-2.0
import type { Ticket } from "../src/model/model.ts";
import { startMs } from "./start-ms.ts";

/** Returns a waiting ticket that any profile may match, with the fields of `more` instead of the defaults. */
export function waitingTicket(id: string, more: Partial<Ticket> = {}): Ticket {
  return {
    id,
    createdMs: startMs,
    profile: "",
    search: { doubles: {}, strings: {}, tags: [] },
    extensions: {},
    state: "waiting",
    attempts: 0,
    ...more,
  };
}
