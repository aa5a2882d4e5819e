// SPDX-License-Identifier: Apache-2.0
import type { Interceptor, UnaryRequest } from "@connectrpc/connect";
import { AdminService } from "@dm-env-rpc/protocol/matchmaker";
import { peerOfCall } from "@dm-env-rpc/transport";
import { fromCallError } from "@dm-env-rpc/transport/internal";
import { shorten } from "../errors.ts";
import type { Emit } from "../events.ts";
import { callerOf } from "./authorize.ts";

/**
 * Creates an interceptor that emits an event for each call of an operator, once the call is answered or the watch has
 * begun. Without `authorize`, every caller of the admin service is an operator.
 */
export function auditOperators(emit: Emit): Interceptor {
  return (next) => async (request) => {
    const caller = callerOf({ values: request.contextValues });
    const isOperator =
      caller?.roles.includes("operator") ?? request.service.typeName === AdminService.typeName;
    if (!isOperator) {
      return await next(request);
    }
    const { address } = peerOfCall(request.contextValues);
    const call = {
      kind: "operator-called",
      who: caller?.name ?? caller?.identity ?? address,
      address,
      method: request.method.name,
      subject: request.stream ? "" : subjectOf(request),
    } as const;
    try {
      const response = await next(request);
      emit({ ...call, outcome: "OK" });
      return response;
    } catch (error) {
      emit({ ...call, outcome: fromCallError(error).code });
      throw error;
    }
  };
}

/** Returns the name or id that a request is about; empty for a list. */
function subjectOf({ message }: UnaryRequest): string {
  const fields = new Map<string, unknown>(Object.entries(message));
  const profile = fields.get("profile");
  const name = typeof profile === "object" && profile !== null && "name" in profile && profile.name;
  for (const subject of [
    fields.get("serverId"),
    fields.get("ticketId"),
    fields.get("name"),
    name,
  ]) {
    if (typeof subject === "string") {
      return shorten(subject);
    }
  }
  return "";
}
