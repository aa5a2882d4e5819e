// SPDX-License-Identifier: Apache-2.0
import type { HandlerContext } from "@connectrpc/connect";
import { peerOfCall } from "@dm-env-rpc/transport";
import { fromConnectError } from "@dm-env-rpc/transport/internal";
import { clientOf, tracerOf } from "@dm-env-rpc/transport/internal/tracing";
import { toConnectError } from "../errors/errors.ts";
import type { Ticket } from "../model/model.ts";

const startSpan = tracerOf("@dm-env-rpc/matchmaker");

const method = "matchmaker.v1.FrontendService/CreateTicket";

/**
 * Creates a ticket within a span that continues the trace of the call's metadata.
 *
 * @param create Receives the span as the header `traceparent`; undefined if it is not traced.
 */
export async function tracedCreate(
  { values, protocolName }: Pick<HandlerContext, "values" | "protocolName">,
  create: (traceparent: string | undefined) => Promise<Ticket>,
): Promise<Ticket> {
  const { address, metadata } = peerOfCall(values);
  const span = startSpan(method, {
    kind: "server",
    parent: metadata,
    attributes: {
      "rpc.system.name": protocolName === "connect" ? "connectrpc" : "grpc",
      "rpc.method": method,
      ...clientOf(address),
    },
  });
  try {
    const ticket = await create(span.traceparent);
    span.end(undefined, { "dm_env_rpc.ticket.id": ticket.id });
    return ticket;
  } catch (error) {
    span.end(fromConnectError(toConnectError(error), "server"));
    throw error;
  }
}
