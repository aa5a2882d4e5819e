// SPDX-License-Identifier: Apache-2.0
import { type AgentEvent, type Fate, fates, type WorldEvent } from "./events.ts";

/** Fates other than `finished` that a fault explains. */
export type Permits = (event: AgentEvent) => boolean;

interface Turn {
  readonly asked: number;
  fate: Fate | undefined;
}

const fateNames: ReadonlySet<string> = new Set(fates);

/**
 * The account of every turn of every agent, and of every agent in every world. A fate that no fault
 * explains, an agent that is assigned again while it plays, and a world with more agents than seats
 * are violations.
 */
export class Ledger {
  readonly violations: string[] = [];
  /** Turns by fate. */
  readonly fates: Record<Fate, number> = {
    finished: 0,
    lost: 0,
    alone: 0,
    failed: 0,
    "given-up": 0,
  };
  /** Turns whose fate a fault explains, by fault and fate. */
  readonly #explained = new Map<string, Map<Fate, number>>();
  /** Number of turns so far. Each has a ticket of its own. */
  turns = 0;
  /** Turns whose process was killed. */
  killed = 0;
  /** Agents in the fullest world, and its seats, by the world's own count. */
  fullest = { agents: 0, seats: 0 };
  readonly #turns = new Map<string, Map<number, Turn>>();
  /** Times of each agent's first steps. */
  readonly #begins = new Map<string, number[]>();
  readonly #tickets = new Set<string>();
  readonly #watchers = new Set<() => void>();
  #fault = "without a fault";
  #permits: Permits = () => false;
  /** Longest waits for a first step, by the fault during which the wait ended. */
  readonly #longestWaits = new Map<string, number>();

  /** Longest time from a request to a first step, in milliseconds. */
  get longestWaitMs(): number {
    return Math.max(0, ...this.#longestWaits.values());
  }

  /** Returns the longest time from a request to a first step during a fault, in milliseconds. */
  longestWaitDuringMs(fault: string): number {
    return this.#longestWaits.get(fault) ?? 0;
  }

  /** Names the fault that explains fates from now on. */
  during(fault: string, permits: Permits = () => false): void {
    this.#fault = fault;
    this.#permits = permits;
  }

  takeAgent(event: AgentEvent): void {
    const { agent, turn: number, is, at } = event;
    const turns = this.#turns.get(agent) ?? new Map<number, Turn>();
    this.#turns.set(agent, turns);
    const turn = turns.get(number);
    if (is === "asked") {
      turns.set(number, { asked: at, fate: undefined });
      this.turns += 1;
    } else if (is === "moved") {
      this.violations.push(`${this.#nameOf(event)}, was assigned again while it played`);
    } else if (is === "began") {
      const begins = this.#begins.get(agent);
      if (begins === undefined) {
        this.#begins.set(agent, [at]);
      } else {
        begins.push(at);
      }
      const longestMs = this.longestWaitDuringMs(this.#fault);
      this.#longestWaits.set(this.#fault, Math.max(longestMs, at - (turn?.asked ?? at)));
    } else if (isFate(is)) {
      this.#end(event, is, turn);
    }
    for (const watch of this.#watchers) {
      watch();
    }
  }

  takeWorld({ is, world, agents, seats, ticket }: WorldEvent): void {
    if (agents > this.fullest.agents) {
      this.fullest = { agents, seats };
    }
    if (is === "left") {
      return;
    }
    if (agents > seats) {
      this.violations.push(`${this.#fault}: world ${world} of ${seats} seats had ${agents} agents`);
    }
    if (this.#tickets.has(ticket)) {
      this.violations.push(`${this.#fault}: ticket ${ticket} joined twice`);
    }
    this.#tickets.add(ticket);
  }

  /** Returns the number of turns of each fate that a fault explained, as text. */
  explainedBy(fault: string): string {
    const counts = [...(this.#explained.get(fault) ?? [])];
    return counts.map(([fate, count]) => `${count} ${fate}`).join(", ");
  }

  /** Forgets the agents of a process that was killed. */
  forget(isOfProcess: (agent: string) => boolean): void {
    for (const [agent, turns] of this.#turns) {
      if (!isOfProcess(agent)) {
        continue;
      }
      for (const { fate } of turns.values()) {
        this.killed += fate === undefined ? 1 : 0;
      }
      this.#turns.delete(agent);
      this.#begins.delete(agent);
    }
  }

  /** Reports turns without a fate: lost tickets. */
  close(): void {
    for (const [agent, turns] of this.#turns) {
      for (const [number, { fate }] of turns) {
        if (fate === undefined) {
          this.violations.push(`turn ${number} of ${agent} has no end`);
        }
      }
    }
  }

  /** Number of agents that have asked for a match. */
  get agents(): number {
    return this.#turns.size;
  }

  /**
   * Resolves with the time by which every agent had made a first step after `sinceMs`; undefined if an agent has made none
   * by `untilMs`.
   */
  async allBegan(sinceMs: number, untilMs: number): Promise<number | undefined> {
    if (!(await this.#when(() => this.missing(sinceMs).length === 0, untilMs))) {
      return undefined;
    }
    const again = [...this.#begins.values()].map((begins) => begins.find((at) => at >= sinceMs));
    return Math.max(...again.map((at = sinceMs) => at));
  }

  /** Returns the agents that have made no first step since `sinceMs`. */
  missing(sinceMs: number): string[] {
    return [...this.#turns.keys()].filter(
      (agent) => (this.#begins.get(agent)?.at(-1) ?? 0) < sinceMs,
    );
  }

  /** Returns the longest pause between `fromMs` and `toMs` in which no sequence began. */
  longestPauseMs(fromMs: number, toMs: number): number {
    let last = fromMs;
    let longest = 0;
    const begins = [...this.#begins.values()].flat().sort((a, b) => a - b);
    for (const at of [...begins.filter((at) => at > fromMs && at < toMs), toMs]) {
      longest = Math.max(longest, at - last);
      last = at;
    }
    return longest;
  }

  async #when(isTrue: () => boolean, untilMs: number): Promise<boolean> {
    if (isTrue()) {
      return true;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let watch = (): void => {};
    const outcome = await new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), Math.max(0, untilMs - Date.now()));
      watch = () => {
        if (isTrue()) {
          resolve(true);
        }
      };
      this.#watchers.add(watch);
    });
    clearTimeout(timer);
    this.#watchers.delete(watch);
    return outcome;
  }

  #end(event: AgentEvent, fate: Fate, turn: Turn | undefined): void {
    if (turn === undefined || turn.fate !== undefined) {
      this.violations.push(`${this.#nameOf(event)}, ended twice`);
      return;
    }
    turn.fate = fate;
    this.fates[fate] += 1;
    const isExplained = fate === "finished" || fate === "given-up" || this.#permits(event);
    if (!isExplained) {
      this.violations.push(`${this.#nameOf(event)}, was ${fate}: ${event.why}`);
    } else if (fate !== "finished") {
      const counts = this.#explained.get(this.#fault) ?? new Map<Fate, number>();
      this.#explained.set(this.#fault, counts.set(fate, (counts.get(fate) ?? 0) + 1));
    }
  }

  #nameOf({ agent, turn, address = "no server" }: AgentEvent): string {
    return `${this.#fault}: turn ${turn} of ${agent}, at ${address}`;
  }
}

function isFate(is: AgentEvent["is"]): is is Fate {
  return fateNames.has(is);
}
