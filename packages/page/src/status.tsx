// SPDX-License-Identifier: Apache-2.0
import type { StreamStatus } from "./use-stream.ts";

/** Shows the state of a stream. */
export function Status({ status }: { readonly status: StreamStatus }) {
  return (
    <p class={`status ${status.kind}`} role="status">
      {textOf(status)}
    </p>
  );
}

function textOf(status: StreamStatus): string {
  switch (status.kind) {
    case "connecting":
      return "Connecting…";
    case "live":
      return "Live";
    case "paused":
      return "Paused";
    case "ended":
      return "This world is gone";
    case "failed":
      return status.isFinal ? status.message : `${status.message}; trying again`;
  }
}
