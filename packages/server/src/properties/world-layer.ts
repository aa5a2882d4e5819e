// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "../definition/awaitable.ts";
import type { JoinedWorld } from "../engine/hosted-world.ts";
import { callForClient, type OnFault, type Question } from "./author-questions.ts";
import { worldProperties } from "./built-in.ts";
import { indexProperties, type PropertyLayer } from "./property-index.ts";

/**
 * Returns the properties of a world: its author's and the built-in ones. No transition runs while a
 * property is read or written.
 */
export function worldLayer(world: JoinedWorld, onFault: OnFault): PropertyLayer {
  return {
    index: indexProperties({ ...world.author.properties, ...worldProperties(world) }),
    call: <T>(question: Question, run: () => Awaitable<T>) =>
      new Promise<T>((resolve, reject) => {
        const name = `${question.of}.${question.name}`;
        const answer = (): Awaitable<T> => callForClient(question, run, onFault);
        world.call<T>({ name, mayChange: question.mayChange }, answer, (result) => {
          if (isDmEnvRpcError(result)) {
            reject(result);
          } else {
            resolve(result.value);
          }
        });
      }),
  };
}
