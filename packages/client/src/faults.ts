// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import type { Malformed, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { RequestCase } from "./call.ts";
import { fateMetadata, type WorldFate } from "./reconnect.ts";

/** A stream that went while requests were open, or before one could be made. */
export function lost(
  peer: string,
  unanswered: number,
  cause: Error | undefined,
  world: WorldFate = "unknown",
): ConnectError {
  const why =
    cause === undefined
      ? "the server ended the stream"
      : cause instanceof ConnectError
        ? cause.rawMessage
        : cause.message;
  const code = cause instanceof ConnectError ? cause.code : Code.Unavailable;
  const what =
    unanswered === 0
      ? `the connection to ${peer} is gone`
      : `${unanswered} ${unanswered === 1 ? "request" : "requests"} to ${peer} will not be answered`;
  return new ConnectError(
    `${what}: ${why}. ${fates[world]}`,
    code,
    fateMetadata(world),
    undefined,
    cause,
  );
}

const fates: Readonly<Record<WorldFate, string>> = {
  kept: "The connection was made again and the agent has joined its world again: its next step begins a sequence",
  lost: "The connection was made again, but the agent's world is gone: create or join another",
  unknown:
    "An agent that had joined has left its world; whether the world lives on is unknown: connect and join again",
};

/** A request made after the connection began to close. */
export function closing(peer: string): ConnectError {
  return new ConnectError(
    `the connection to ${peer} is closing and takes no more requests; connect again`,
    Code.FailedPrecondition,
  );
}

/** A request that was still waiting to be sent when the connection was closed. */
export function unsent(peer: string): ConnectError {
  return new ConnectError(
    `the connection to ${peer} was closed before the request was sent; use drain() to let requests finish`,
    Code.Canceled,
  );
}

/** More requests than the client is willing to keep. */
export function tooManyWaiting(maxWaiting: number): ConnectError {
  return new ConnectError(
    `expected at most ${maxWaiting} requests to wait for room in the window, received one more; await some of them first or raise maxWaiting`,
    Code.ResourceExhausted,
  );
}

/** A response that answers another request than the one whose turn it is. */
export function wrongKind(
  peer: string,
  expected: RequestCase,
  received: ProcessResponse["case"],
): ConnectError {
  return new ConnectError(
    `expected ${peer} to answer ${article(expected)} request in kind or with an error, received ${article(received)} response; the server breaks the protocol, so the connection is closed`,
    Code.Internal,
  );
}

/** A response when no request was open. */
export function unasked(
  peer: string,
  received: ProcessResponse["case"] | "malformed",
): ConnectError {
  return new ConnectError(
    `expected nothing from ${peer} since no request was open, received ${article(received)} response; the server breaks the protocol, so the connection is closed`,
    Code.Internal,
  );
}

/** A response that is no message. */
export function malformed(peer: string, expected: RequestCase, bytes: Malformed): ConnectError {
  return new ConnectError(
    `expected ${peer} to answer ${article(expected)} request, received bytes that are no response: ${bytes.value.message}; the server breaks the protocol, so the connection is closed`,
    Code.DataLoss,
    undefined,
    undefined,
    bytes.value,
  );
}

function article(kind: string | undefined): string {
  if (kind === undefined) return "an empty";
  return /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}
