// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { isRefusal } from "../engine/author-calls.ts";
import { publicMessageOf } from "../engine/public-message.ts";

/** A property or an extension that an author's function answers for one client. */
export interface Question {
  readonly of: "properties" | "extensions";
  /** Key of the property, or type of the extension. */
  readonly name: string;
  /** False if the function only reads. */
  readonly mayChange: boolean;
}

/** Returns the name of a question in errors and events, such as `property "speed"`. */
export function nameOf({ of, name }: Question): string {
  return `${of === "properties" ? "property" : "extension"} "${name}"`;
}

/** Reports the failure of an author's function that answers one client. */
export type OnFault = (question: Question, error: unknown) => void;

/**
 * Calls an author's function whose failure concerns only one client.
 *
 * @throws DmEnvRpcError, TensorError if the function refuses; INTERNAL with the question's name for
 *   other errors.
 */
export function callForClient<T>(
  question: Question,
  run: () => Awaitable<T>,
  onFault: OnFault,
): Awaitable<T> {
  const failed = (error: unknown): never => {
    if (isRefusal(error)) {
      throw error;
    }
    onFault(question, error);
    throw new DmEnvRpcError(
      "INTERNAL",
      `the ${nameOf(question)} failed: ${publicMessageOf(error)}`,
      {
        cause: error,
      },
    );
  };
  try {
    const result = run();
    return isPromiseLike(result) ? result.then(undefined, failed) : result;
  } catch (error) {
    return failed(error);
  }
}
