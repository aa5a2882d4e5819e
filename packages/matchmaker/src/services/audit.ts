// SPDX-License-Identifier: Apache-2.0
import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { AdminService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { peerOfCall } from "@dm-env-rpc/transport";
import { fromCallError, shorten } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../model/events.ts";
import { type Caller, callerOf } from "./authorize.ts";

/**
 * Creates an interceptor that emits an event for each call of an operator, once the call is answered. A watch is answered
 * by its first message, or by its end if it ends without a message. Without `authorize`, a caller is an operator if it calls the admin service, or drains or deregisters a server
 * without the server's secret.
 */
export function auditOperators(emit: Emit): Interceptor {
  return (next) => async (request) => {
    const caller = callerOf({ values: request.contextValues });
    if (!(caller?.roles.includes("operator") ?? isOperatorsCall(request))) {
      return await next(request);
    }
    let subject = "";
    const read = (message: object): void => {
      subject ||= subjectOf(message);
    };
    const { address } = peerOfCall(request.contextValues);
    const answered = (outcome: string): void =>
      emit({
        kind: "operator-called",
        who: nameOf(caller, address),
        address,
        method: request.method.name,
        subject,
        outcome,
      });
    try {
      if (!request.stream) {
        read(request.message);
      }
      const response = await next(
        request.stream ? { ...request, message: withReader(request.message, read) } : request,
      );
      if (response.stream) {
        return { ...response, message: withAnswer(response.message, answered) };
      }
      answered("OK");
      return response;
    } catch (error) {
      answered(fromCallError(error).code);
      throw error;
    }
  };
}

/** Returns the name of a caller in events: its name or identity; its address if it has neither. */
export function nameOf(caller: Caller | undefined, address: string): string {
  return caller?.name ?? caller?.identity ?? address;
}

/** Returns true for a call that only operators make. */
function isOperatorsCall(request: UnaryRequest | StreamRequest): boolean {
  const { service, method, stream, message } = request;
  const { drainServer, deregisterServer } = RegistryService.method;
  const isForServer = method === drainServer || method === deregisterServer;
  return (
    service.typeName === AdminService.typeName ||
    (isForServer && !stream && "serverSecret" in message && message.serverSecret === "")
  );
}

/** Yields the messages of a stream, and passes each to `read` before that. */
async function* withReader<T extends object>(
  messages: AsyncIterable<T>,
  read: (message: T) => void,
): AsyncGenerator<T, void, undefined> {
  for await (const message of messages) {
    read(message);
    yield message;
  }
}

/** Yields the messages of a stream. Calls `answered` once: with "OK", or with the code if there is no message. */
async function* withAnswer<T>(
  messages: AsyncIterable<T>,
  answered: (outcome: string) => void,
): AsyncGenerator<T, void, undefined> {
  let isAnswered = false;
  const answer = (outcome: string): void => {
    if (!isAnswered) {
      isAnswered = true;
      answered(outcome);
    }
  };
  try {
    for await (const message of messages) {
      answer("OK");
      yield message;
    }
  } catch (error) {
    answer(fromCallError(error).code);
    throw error;
  } finally {
    answer("OK");
  }
}

/** Returns the name or id that a request is about; empty for a list. */
function subjectOf(message: object): string {
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
