// SPDX-License-Identifier: Apache-2.0
import type { ContextValues, HandlerContext, Interceptor } from "@connectrpc/connect";
import { type ListenOptions, type Peer, peerOfCall } from "@dm-env-rpc/transport";
import { fromCallError, RefusalCounts } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../model/events.ts";
import { defaultSettings } from "../model/settings.ts";
import { nameOf } from "./audit.ts";
import { type Caller, callerOf } from "./authorize.ts";
import { mapStreamErrors } from "./stream-errors.ts";

type OnCall = NonNullable<ListenOptions["onCall"]>;
type Gate = (call: HandlerContext) => Promise<void>;

/** Codes with which a caller is refused. */
const refusing: ReadonlySet<string> = new Set([
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
]);

/** Counts the calls that are refused, and emits an event for each. */
export class Refusals {
  readonly #emit: Emit;
  readonly #counts = new RefusalCounts();

  constructor(emit: Emit) {
    this.#emit = emit;
  }

  /** Number of refused calls, by the name of the limit or the gRPC code. */
  get byReason(): ReadonlyMap<string, number> {
    return this.#counts.byLimit;
  }

  /** Notes the calls that a listener's `onCall` refuses. */
  of(admit: OnCall): OnCall {
    return (call) => {
      try {
        return admit(call);
      } catch (error) {
        const { path, peer } = call;
        this.#note(error, path.slice(path.lastIndexOf("/") + 1), peer, undefined);
        throw error;
      }
    };
  }

  /** Notes the calls that the `requestGate` of a service refuses. */
  gate(gate: Gate): Gate {
    return async (call) => {
      try {
        await gate(call);
      } catch (error) {
        this.#note(error, call.method.name, peerOfCall(call.values), callerOf(call));
        throw error;
      }
    };
  }

  /** Notes the calls that later interceptors and the methods refuse, also if a stream has already had messages. */
  readonly interceptor: Interceptor = (next) => async (request) => {
    const noted = (error: unknown): unknown => {
      this.note(error, request.method.name, request.contextValues);
      return error;
    };
    try {
      const response = await next(request);
      return response.stream
        ? { ...response, message: mapStreamErrors(response.message, noted) }
        : response;
    } catch (error) {
      throw noted(error);
    }
  };

  /** Notes a call that is refused, if the error is a refusal. */
  readonly note = (error: unknown, method: string, values: ContextValues): void =>
    this.#note(error, method, peerOfCall(values), callerOf({ values }));

  #note(error: unknown, method: string, { address }: Peer, caller: Caller | undefined): void {
    const reason = reasonOf(error);
    if (reason === undefined) {
      return;
    }
    this.#counts.count(reason);
    const who = nameOf(caller, address);
    this.#emit({ kind: "call-refused", reason, method, who, address });
  }
}

/** Returns the limit that refused a call, which its error ends with, otherwise the code; undefined for other errors. */
function reasonOf(error: unknown): string | undefined {
  const { code, message } = fromCallError(error);
  const [, limit = ""] = /\(limit: (\w+)\)$/.exec(message) ?? [];
  if (Object.hasOwn(defaultSettings, limit)) {
    return limit;
  }
  return refusing.has(code) ? code : undefined;
}
