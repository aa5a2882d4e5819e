// SPDX-License-Identifier: Apache-2.0
import type { MatchmakerEvent } from "@dm-env-rpc/matchmaker";
import type { Level, Logger } from "pino";

const levels: Readonly<Record<MatchmakerEvent["kind"], Level>> = {
  leading: "info",
  following: "info",
  ticked: "trace",
  matched: "debug",
  assigned: "info",
  "world-created": "debug",
  "world-reset": "debug",
  "world-destroyed": "debug",
  "world-adopted": "info",
  "world-failed": "warn",
  "server-registered": "info",
  "server-refused": "warn",
  "server-allocated": "info",
  "allocation-failed": "warn",
  "server-lost": "warn",
  "server-gone": "info",
  "ticket-ended": "debug",
  "operator-called": "info",
  "bad-proposal": "warn",
  "store-failed": "error",
  "store-recovered": "info",
  "store-lost": "error",
  "step-failed": "error",
};

/** Writes an event as one structured line. */
export function logEvent(logger: Logger, { kind, ...facts }: MatchmakerEvent): void {
  if ("error" in facts) {
    const { error, ...others } = facts;
    logger[levels[kind]]({ ...others, err: error }, kind);
  } else {
    logger[levels[kind]](facts, kind);
  }
}
