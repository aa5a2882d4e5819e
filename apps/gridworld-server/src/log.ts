// SPDX-License-Identifier: Apache-2.0
import type { ServerEvent } from "@dm-env-rpc/server";
import { LineLimit } from "@dm-env-rpc/transport/internal";

/**
 * Creates a log of failures that an attacker cannot flood: in ten seconds, each kind of event has at most five lines, and
 * then one line with the number of further events.
 */
export function createLog(write: (text: string) => void): (event: ServerEvent) => void {
  const limit = new LineLimit((kind, lines, seconds) =>
    write(`${kind}: and ${lines.toLocaleString("en")} more in the last ${seconds} s\n`),
  );
  return (event) => {
    if (event.kind === "world-failed" || event.kind === "transport-error") {
      if (limit.admits(event.kind)) {
        write(`${event.kind}: ${textOf(event.error)}\n`);
      }
    } else if (event.kind === "server-closing") {
      limit.flush();
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
