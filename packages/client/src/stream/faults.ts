// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type DmEnvRpcErrorOptions,
  isDmEnvRpcError,
  isTensorError,
  type StatusCode,
} from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { messageOf } from "@dm-env-rpc/transport/internal";
import type { RequestCase } from "./call.ts";

/**
 * Fate of the agent's world after its connection was lost: the agent has joined it again (`kept`), it
 * is no longer on the server (`lost`), or its fate is not known (`unknown`).
 */
export type WorldFate = "kept" | "lost" | "unknown";

/** Error of a lost stream. No other error has the fate of the agent's world. */
class LostStream extends DmEnvRpcError {
  readonly worldFate: WorldFate;

  constructor(
    code: StatusCode,
    message: string,
    worldFate: WorldFate,
    options: DmEnvRpcErrorOptions,
  ) {
    super(code, message, options);
    this.worldFate = worldFate;
  }
}

/**
 * Returns the fate of the agent's world from the error of a lost connection.
 *
 * @returns undefined for any other error.
 */
export function worldFate(error: unknown): WorldFate | undefined {
  if (!isDmEnvRpcError(error) || !("worldFate" in error)) {
    return undefined;
  }
  const fate = error.worldFate;
  return fate === "kept" || fate === "lost" || fate === "unknown" ? fate : undefined;
}

/**
 * Returns true for the error with which the server answered a request; the stream continues.
 *
 * @example
 * try {
 *   await environment.step({ field: 4 });
 * } catch (error) {
 *   if (!isRefusal(error)) {
 *     throw error;
 *   }
 *   console.log(`not allowed: ${error.message}`); // The agent may step again.
 * }
 */
export function isRefusal(error: unknown): error is DmEnvRpcError & { readonly origin: "server" } {
  return isDmEnvRpcError(error) && error.origin === "server" && worldFate(error) === undefined;
}

/** Codes with which a server answers requests to a world that has failed or no longer exists. */
const agentEnding: readonly StatusCode[] = [
  "INTERNAL",
  "NOT_FOUND",
  "UNAVAILABLE",
  "DEADLINE_EXCEEDED",
];

/** Returns true if an error ends the agent, because its stream or its world is lost. */
export function endsAgent(error: unknown): boolean {
  return worldFate(error) !== undefined || (isRefusal(error) && agentEnding.includes(error.code));
}

/** Creates the error of a lost stream. `unanswered` is the number of requests that were open. */
export function lost(
  peer: string,
  unanswered: number,
  cause: Error | undefined,
  world: WorldFate = "unknown",
): DmEnvRpcError {
  const why = cause === undefined ? "the server ended the stream" : messageOf(cause);
  const { code, origin } = isDmEnvRpcError(cause)
    ? cause
    : ({ code: "UNAVAILABLE", origin: "connection" } as const);
  const what =
    unanswered === 0
      ? `the connection to ${peer} is lost`
      : `${unanswered} ${unanswered === 1 ? "request" : "requests"} to ${peer} will not be answered`;
  const message = `${what}: ${why}. ${fates[world]}`;
  return new LostStream(code, message, world, { origin, cause });
}

const fates: Readonly<Record<WorldFate, string>> = {
  kept: "The connection was re-established, and the agent has joined its world again: its next step begins a sequence",
  lost: "The connection was re-established, but the agent's world is gone: create or join another",
  unknown:
    "If an agent had joined, it has left its world, which may or may not still exist: connect and join again",
};

/** Creates the error of a request made after the connection began to close. */
export function closing(peer: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `the connection to ${peer} is closing and accepts no more requests; connect again`,
    { origin: "client" },
  );
}

/** Creates the error of a request that was still waiting to be sent when the connection was closed. */
export function unsent(peer: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "CANCELLED",
    `the connection to ${peer} was closed before the request was sent; use drain() to let waiting requests finish`,
    { origin: "client" },
  );
}

/**
 * Creates the error of a request that its codec refuses. A TensorError or DmEnvRpcError is returned
 * unchanged, because it is more precise.
 */
export function notEncoded(cause: unknown): Error {
  if (isTensorError(cause) || isDmEnvRpcError(cause)) {
    return cause;
  }
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `expected a request that can be encoded, received one that cannot: ${messageOf(cause)}; check its fields`,
    { origin: "client", cause },
  );
}

/** Creates the error of too many waiting requests. */
export function tooManyWaiting(maxWaiting: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `expected at most ${maxWaiting} requests to wait for room in the window, received one more; await some of them first, or raise maxWaiting`,
    { origin: "client" },
  );
}

/** Creates the error of a response whose kind differs from that of the oldest open request. */
export function wrongKind(
  peer: string,
  expected: RequestCase,
  received: ProcessResponse["case"],
): DmEnvRpcError {
  return new DmEnvRpcError(
    "INTERNAL",
    `expected ${peer} to answer ${article(expected)} request with ${article(expected)} response or an error, received ${article(received)} response; the server breaks the protocol, so the connection is closed`,
    { origin: "connection" },
  );
}

/** Creates the error of a response without an open request. */
export function unrequested(
  peer: string,
  received: ProcessResponse["case"] | "malformed",
): DmEnvRpcError {
  return new DmEnvRpcError(
    "INTERNAL",
    `expected nothing from ${peer}, because no request was open, received ${article(received)} response; the server breaks the protocol, so the connection is closed`,
    { origin: "connection" },
  );
}

/** Creates the error of a response that failed to decode. */
export function malformed(peer: string, expected: RequestCase, bytes: Malformed): DmEnvRpcError {
  return new DmEnvRpcError(
    "DATA_LOSS",
    `expected ${peer} to answer ${article(expected)} request, received undecodable bytes: ${bytes.value.message}; the server breaks the protocol, so the connection is closed`,
    { origin: "connection", cause: bytes.value },
  );
}

function article(kind: string | undefined): string {
  if (kind === undefined) {
    return "an empty";
  }
  return /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}
