// SPDX-License-Identifier: Apache-2.0
import type { ServerEvent } from "@dm-env-rpc/server";

/** Lines about one kind of event within a period; further ones are counted. */
const linesPerPeriod = 5;
const periodMs = 10_000;

/** The current period of a kind of event. */
interface Period {
  lines: number;
  /** Ends the period. */
  readonly end: () => void;
}

/**
 * Creates a log of failures that an attacker cannot flood: in ten seconds, each kind of event has at most five lines, and
 * then one line with the number of further events.
 */
export function createLog(write: (text: string) => void): (event: ServerEvent) => void {
  const periods = new Map<string, Period>();
  const beginPeriod = (kind: string): Period => {
    const begunMs = performance.now();
    const end = (): void => {
      clearTimeout(timer);
      periods.delete(kind);
      const more = period.lines - linesPerPeriod;
      if (more > 0) {
        const seconds = Math.max(1, Math.round((performance.now() - begunMs) / 1_000));
        write(`${kind}: and ${more.toLocaleString("en")} more in the last ${seconds} s\n`);
      }
    };
    const timer = setTimeout(end, periodMs).unref();
    const period = { lines: 0, end };
    periods.set(kind, period);
    return period;
  };
  return (event) => {
    if (event.kind === "world-failed" || event.kind === "transport-error") {
      const period = periods.get(event.kind) ?? beginPeriod(event.kind);
      period.lines += 1;
      if (period.lines <= linesPerPeriod) {
        write(`${event.kind}: ${textOf(event.error)}\n`);
      }
    } else if (event.kind === "server-closing") {
      for (const { end } of [...periods.values()]) {
        end();
      }
    }
  };
}

/** Returns the message of an error, and the stack of its first cause: agents receive less. */
function textOf(error: Error): string {
  let first: unknown = error;
  while (first instanceof Error && first.cause instanceof Error) {
    first = first.cause;
  }
  return first === error || !(first instanceof Error)
    ? error.message
    : `${error.message}\n${first.stack}`;
}
