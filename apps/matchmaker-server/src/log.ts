// SPDX-License-Identifier: Apache-2.0
import type { MatchmakerEvent } from "@dm-env-rpc/matchmaker";
import { LineLimit } from "@dm-env-rpc/transport/internal";
import type { Level, Logger } from "pino";

type Kind = MatchmakerEvent["kind"];

const levels: Readonly<Record<Kind, Level>> = {
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
  "call-refused": "warn",
  "authorize-failed": "error",
  "call-failed": "error",
  "bad-proposal": "warn",
  "store-failed": "error",
  "store-recovered": "info",
  "store-lost": "error",
  "step-failed": "error",
};

/** Events that any caller can cause, as often as it calls. */
const limited: ReadonlySet<Kind> = new Set([
  "call-refused",
  "authorize-failed",
  "call-failed",
  "server-refused",
]);

/** A log of a matchmaker's events. */
export interface Log {
  /** Writes an event as one structured line. */
  note(event: MatchmakerEvent): void;
  /** Writes the number of events that were skipped and have not been reported yet. */
  flush(): void;
}

/**
 * Creates a log that callers cannot flood. A kind of event that callers can cause has at most five lines in ten seconds, and
 * then one line with the number of further events. Refused calls have this limit for each reason.
 */
export function createLog(logger: Logger): Log {
  const limit = new LineLimit((kind, lines, seconds) =>
    logger.warn({ lines, seconds }, `${kind}: further lines were skipped`),
  );
  const note = (event: MatchmakerEvent): void => {
    const { kind, ...facts } = event;
    const topic = event.kind === "call-refused" ? `${kind} (${event.reason})` : kind;
    if (limited.has(kind) && !limit.admits(topic)) {
      return;
    }
    if ("error" in facts) {
      const { error, ...others } = facts;
      logger[levels[kind]]({ ...others, err: error }, kind);
    } else {
      logger[levels[kind]](facts, kind);
    }
  };
  return { note, flush: () => limit.flush() };
}
