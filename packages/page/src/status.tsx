// SPDX-License-Identifier: Apache-2.0
import type { StreamStatus } from "./use-stream.ts";

interface StatusProps {
  readonly status: StreamStatus;
  /** Text for a stream that the server has ended: what happened, and what the viewer can do. */
  readonly ended: string;
}

/** Shows the state of a stream. */
export function Status({ status, ended }: StatusProps) {
  return (
    <p class={`status ${status.kind}`} role="status">
      {textOf(status, ended)}
    </p>
  );
}

function textOf(status: StreamStatus, ended: string): string {
  switch (status.kind) {
    case "connecting":
      return "Connecting…";
    case "live":
      return "Live";
    case "paused":
      return "Paused";
    case "ended":
      return ended;
    case "failed":
      return status.isFinal ? status.message : `${status.message}; trying again`;
  }
}
