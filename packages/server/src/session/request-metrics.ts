// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { type DiagnosticsChannel, diagnosticsChannel } from "@dm-env-rpc/transport/internal";

/** A request was answered. */
export interface RequestAnswered {
  /** Of the peer. */
  readonly address: string;
  /** Which payload it had; undefined when it had none, `malformed` when it was none. */
  readonly request: ProcessRequest["case"] | "malformed";
  /** From its turn to its answer, waiting for other agents included. */
  readonly durationMs: number;
  /** The code of google.rpc.Code that it was answered with, 0 for a response. */
  readonly code: number;
}

/**
 * The `node:diagnostics_channel` on which every answered request is published, as a
 * RequestAnswered, while the channel has subscribers; otherwise nothing is measured.
 */
export const requestChannelName = "dm-env-rpc:server:request" as const;

/** The channel itself, held so that looking for subscribers costs nothing. */
export const requestChannel: DiagnosticsChannel = diagnosticsChannel(requestChannelName);

/** Publishes a request that was answered. */
export function publishAnswered(
  address: string,
  request: RequestAnswered["request"],
  startedAt: number,
  response: ProcessResponse,
): void {
  const answered: RequestAnswered = {
    address,
    request,
    durationMs: performance.now() - startedAt,
    code: response.case === "error" ? response.value.code : 0,
  };
  requestChannel.publish(answered);
}
