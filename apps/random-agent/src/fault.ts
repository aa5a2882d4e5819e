// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";

/** Where agents were to play. */
interface Place {
  readonly address: string;
  readonly world: string | undefined;
  readonly matchmakers: readonly string[];
}

/** What went wrong and what to do, in one line. */
export function fault(error: unknown, { address, world, matchmakers }: Place): string {
  if (matchmakers.length === 0) return oneLine(textOf(error, address, world));
  const names = matchmakers.join(", ");
  const text = error instanceof Error ? messageOf(error) : String(error);
  if (isRefused(error)) {
    return `nobody listens at ${names}; start a matchmaker there, or say where one is with --matchmaker`;
  }
  return oneLine(`the matchmaker at ${names}, or a server that it named: ${text}`);
}

function textOf(error: unknown, address: string, world: string | undefined): string {
  if (isDmEnvRpcError(error)) {
    if (error.code === "NOT_FOUND" && world !== undefined)
      return `there is no world "${world}" at ${address}: ${error.message}; leave --world out to create one`;
    return `the server at ${address} refused: ${error.message} (${error.code})`;
  }
  if (isTensorError(error))
    return `the server at ${address} sent what does not fit its specs: ${error.message}`;
  if (error instanceof Error) {
    if (isRefused(error))
      return `nobody listens at ${address}; start a server there, or say where one is with --address`;
    const message = messageOf(error);
    return /will not be answered|is gone/.test(message)
      ? `the server at ${address} was lost in mid-play; see what it says, start it again and play again (${message})`
      : message;
  }
  return String(error);
}

function messageOf(error: Error): string {
  return "rawMessage" in error && typeof error.rawMessage === "string"
    ? error.rawMessage
    : error.message;
}

function isRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return causes(error).some((cause) => "code" in cause && cause.code === "ECONNREFUSED");
}

function causes(error: Error): Error[] {
  const chain = [error];
  for (let cause = error.cause; cause instanceof Error && chain.length < 8; cause = cause.cause)
    chain.push(cause);
  return chain;
}

function oneLine(text: string): string {
  return text.replace(/\s*[\r\n]+\s*/g, " ").trim();
}
