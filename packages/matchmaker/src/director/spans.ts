// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { parseAddress } from "@dm-env-rpc/transport";
import { type TraceSpan, tracerOf } from "@dm-env-rpc/transport/internal/tracing";
import type { Match, ServerRecord, Ticket } from "../model/model.ts";

const startSpan = tracerOf("@dm-env-rpc/matchmaker");

const createWorld = "dm_env_rpc.v1.Environment/CreateWorld";

/**
 * Starts the span in which tickets are assigned to a match. A match has many tickets. So the span links to
 * the spans that created the tickets, as is the convention for messaging.
 *
 * @param before The span that assigned earlier tickets to the match.
 */
export function startMatchSpan(
  operation: "match" | "backfill",
  profile: string,
  tickets: readonly Ticket[],
  before?: string,
): TraceSpan {
  return startSpan(`${operation} ${profile}`, {
    kind: "consumer",
    links: [before, ...tickets.map(({ traceparent }) => traceparent)],
    attributes: {
      "messaging.system": "dm_env_rpc",
      "messaging.operation.type": "process",
      "messaging.operation.name": operation,
      "messaging.destination.name": profile,
      "messaging.batch.message_count": tickets.length,
    },
  });
}

/** Ends the span of a match that was committed. */
export function endMatchSpan(span: TraceSpan, { id, serverId }: Match): void {
  span.end(undefined, { "dm_env_rpc.match.id": id, "dm_env_rpc.server.id": serverId });
}

/** Returns the error of a match whose records changed between its planning and its commit. */
export function conflict(): DmEnvRpcError {
  return new DmEnvRpcError(
    "ABORTED",
    "the tickets, world or match changed before the commit; the next tick plans again",
  );
}

/** Starts the span in which a world is created on a server, for a match if there is one. */
export function startCreateSpan(server: ServerRecord, match: Match | undefined): TraceSpan {
  const { host, port } = parseAddress(server.address);
  return startSpan(createWorld, {
    kind: "client",
    parent: match?.traceparent,
    attributes: {
      "rpc.system.name": "dm_env_rpc",
      "rpc.method": createWorld,
      "server.address": host,
      "server.port": port,
      "dm_env_rpc.server.id": server.id,
    },
  });
}
