// SPDX-License-Identifier: Apache-2.0
import type { AgentModel, Asker } from "./agent-model.ts";
import { type Alarm, Deadline } from "./timers.ts";

/** A reset of the world, which waits until its agents were told that their sequence is over, or for a time. */
export class WorldResetModel {
  /** The total with which the next sequence begins, where a caller asked for one. */
  start: number | undefined;
  readonly #untold: Set<AgentModel>;
  readonly #callers: Asker[] = [];
  readonly #deadline: Deadline;

  constructor(agents: readonly AgentModel[], alarm: Alarm, deadlineMs: number, over: () => void) {
    this.#untold = new Set(agents.filter((agent) => agent.untold !== undefined && !agent.outside));
    this.#deadline = new Deadline(alarm, deadlineMs, () => {
      for (const agent of this.#untold) {
        agent.outside = true;
      }
      this.#untold.clear();
      over();
    });
    this.#deadline.holds(true);
  }

  /** Whether it waits for nobody any more. */
  get due(): boolean {
    return this.#untold.size === 0;
  }

  /** Somebody asks for it, or for the same once more. */
  ask(caller: Asker, start: number | undefined): void {
    this.#callers.push(caller);
    this.start = start ?? this.start;
  }

  /** It need not wait for this agent any more. */
  told(agent: AgentModel): void {
    this.#untold.delete(agent);
  }

  /** It is done, or the world is gone: whoever asked is told. */
  end(answer: Parameters<Asker["answer"]>[0]): void {
    this.#deadline.stop();
    for (const caller of this.#callers) {
      caller.answer(answer);
    }
  }
}
