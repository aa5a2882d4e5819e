// SPDX-License-Identifier: Apache-2.0
import { worldFate } from "@dm-env-rpc/client";
import { isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";

/** The place where agents should play. */
interface Place {
  readonly address: string;
  readonly world: string | undefined;
  readonly matchmakers: readonly string[];
}

/** Describes an error and its remedy in one line. */
export function fault(error: unknown, { address, world, matchmakers }: Place): string {
  if (matchmakers.length === 0) {
    return oneLine(textOf(error, address, world));
  }
  const names = matchmakers.join(", ");
  if (isUnreachable(error)) {
    return `cannot reach a matchmaker at ${names}; start one there, or give another address with --matchmaker`;
  }
  return oneLine(`the matchmaker at ${names}, or a server that it named: ${messageOf(error)}`);
}

function textOf(error: unknown, address: string, world: string | undefined): string {
  if (isUnreachable(error)) {
    return `cannot reach a server at ${address}; start one there, or give another address with --address`;
  }
  if (isTensorError(error)) {
    return `the server at ${address} sent a value that does not fit its specs: ${error.message}`;
  }
  if (!isDmEnvRpcError(error)) {
    return messageOf(error);
  }
  if (worldFate(error) !== undefined) {
    return `the server at ${address} was lost while agents played; look at its log, restart it and play again (${error.message})`;
  }
  if (error.origin !== "server") {
    return error.message;
  }
  if (error.code === "NOT_FOUND" && world !== undefined) {
    return `the world "${world}" does not exist at ${address}: ${error.message}; omit --world to create one`;
  }
  return `the server at ${address} refused: ${error.message} (${error.code})`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) {
    return false;
  }
  return causes(error).some((cause) => "code" in cause && cause.code === "ECONNREFUSED");
}

function causes(error: Error): Error[] {
  const chain = [error];
  for (let cause = error.cause; cause instanceof Error && chain.length < 8; cause = cause.cause) {
    chain.push(cause);
  }
  return chain;
}

function oneLine(text: string): string {
  return text.replace(/\s*[\r\n]+\s*/g, " ").trim();
}
