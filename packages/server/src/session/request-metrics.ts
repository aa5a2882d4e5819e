// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { type DiagnosticsChannel, diagnosticsChannel } from "@dm-env-rpc/transport/internal";

/** A request was answered. */
export interface RequestAnswered {
  /** Address of the peer. */
  readonly address: string;
  /** Kind of the request; undefined without a payload, `malformed` if it failed to decode. */
  readonly request: ProcessRequest["case"] | "malformed";
  /** Milliseconds from the start of its processing to its response, including waits for agents. */
  readonly durationMs: number;
  /** The google.rpc.Code in the response; 0 if it is not an error. */
  readonly code: number;
}

/**
 * The `node:diagnostics_channel` on which every answered request is published, as a
 * RequestAnswered, while the channel has subscribers; otherwise nothing is measured.
 */
export const requestChannelName = "dm-env-rpc:server:request" as const;

/** The channel itself, stored so that checking for subscribers costs nothing. */
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
