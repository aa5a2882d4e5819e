// SPDX-License-Identifier: Apache-2.0
import type { AgentModel, Asker } from "./agent-model.ts";
import { type Alarm, Deadline } from "./timers.ts";

/**
 * A reset of the world, which waits until its agents have received the end of their sequence, or
 * for its deadline.
 */
export class WorldResetModel {
  /** The total with which the next sequence begins, if a caller set one. */
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

  /** True once it waits for no agent. */
  get due(): boolean {
    return this.#untold.size === 0;
  }

  /** A caller requests the reset, or the same one again. */
  ask(caller: Asker, start: number | undefined): void {
    this.#callers.push(caller);
    this.start = start ?? this.start;
  }

  /** Stops waiting for an agent. */
  told(agent: AgentModel): void {
    this.#untold.delete(agent);
  }

  /** Answers all callers: the reset is done, or the world is gone. */
  end(answer: Parameters<Asker["answer"]>[0]): void {
    this.#deadline.stop();
    for (const caller of this.#callers) {
      caller.answer(answer);
    }
  }
}
