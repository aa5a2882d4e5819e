// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf } from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { isRefusal } from "../engine/world-calls.ts";

/** What one client asks of an author. */
export interface Question {
  readonly of: "properties" | "extensions";
  /** Key of the property, or type of the extension. */
  readonly name: string;
}

/** A question as it is called in errors. */
export function calledIn({ of, name }: Question): string {
  return `${of === "properties" ? "property" : "extension"} "${name}"`;
}

/** Told what went wrong in an author's function that answers one client. */
export type OnFault = (question: Question, error: unknown) => void;

/**
 * Calls an author's function whose failure concerns nobody but the one who asks.
 *
 * @throws DmEnvRpcError, TensorError what the function refuses with; INTERNAL naming what was asked for all else.
 */
export function asked<T>(
  question: Question,
  run: () => Awaitable<T>,
  onFault: OnFault,
): Awaitable<T> {
  const failed = (error: unknown): never => {
    if (isRefusal(error)) throw error;
    onFault(question, error);
    throw new DmEnvRpcError("INTERNAL", `the ${calledIn(question)} failed: ${messageOf(error)}`, {
      cause: error,
    });
  };
  try {
    const result = run();
    return isPromiseLike(result) ? result.then(undefined, failed) : result;
  } catch (error) {
    return failed(error);
  }
}
