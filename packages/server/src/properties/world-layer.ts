// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "../definition/awaitable.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import type { Done } from "../engine/hosted-world.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat } from "../engine/seat.ts";
import type { Sequence } from "../engine/sequence.ts";
import type { WaitingRequests } from "../engine/waiting-requests.ts";
import type { WorldCalls } from "../engine/world-calls.ts";
import { asked, type OnFault, type Question } from "./asked.ts";
import { worldProperties } from "./built-in.ts";
import { indexProperties, type PropertyLayer } from "./property-index.ts";

/** What the properties of a world are read from, and asked through. */
export interface WorldLayerOptions {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly world: UntypedWorld;
  readonly seats: ReadonlySet<Seat>;
  readonly sequence: Sequence;
  readonly calls: WorldCalls;
  readonly requests: WaitingRequests;
  readonly onFault: OnFault;
}

/** The properties of a world, its author's and those that every world has, asked in the world's turn. */
export function worldLayer(options: WorldLayerOptions): PropertyLayer {
  const { name, definition, world, seats, sequence, calls, requests, onFault } = options;
  const facts = {
    name,
    definition,
    get agentCount() {
      return seats.size;
    },
    get ticks() {
      return sequence.ticks;
    },
    get sequences() {
      return sequence.sequences;
    },
    get missedDeadlines() {
      return sequence.missedDeadlines;
    },
  };
  return {
    index: indexProperties({ ...world.properties, ...worldProperties(facts) }),
    call: <T>(question: Question, run: () => Awaitable<T>) =>
      new Promise<T>((resolve, reject) => {
        const done: Done<{ readonly value: T }> = (result) => {
          if (isDmEnvRpcError(result)) reject(result);
          else resolve(result.value);
        };
        requests.run(done, (finish) =>
          calls.call(
            "properties",
            () => asked(question, run, onFault),
            (value) => finish({ value }),
            (error) => finish(clientError(error)),
            `${question.of}.${question.name}`,
          ),
        );
      }),
  };
}
