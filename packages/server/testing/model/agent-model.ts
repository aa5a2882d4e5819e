// SPDX-License-Identifier: Apache-2.0
import { type Answer, type ObservationName, observationNames, type Request } from "./requests.ts";

/** Who asked, and is told. */
export interface Asker {
  answer(answer: Answer): void;
}

/** What an agent does in one tick. */
export interface Actions {
  readonly add?: number;
  readonly sleep?: number;
}

/** A step that is outstanding. */
export interface OutstandingStep {
  readonly actions: Actions;
  readonly requested: readonly ObservationName[];
}

/** What an agent saw, or must still see, at some moment. */
export type Observations = Extract<Answer, { kind: "step" }>["observations"];

/** The end of a sequence that an agent must still be told. */
export interface UntoldEnd {
  readonly state: "TERMINATED" | "INTERRUPTED";
  readonly observations: Observations;
}

/** One agent in a world, as the promises speak of it. */
export class AgentModel {
  readonly id: number;
  asker: Asker;
  /** A join with the same key takes its seat again. */
  readonly key: string | undefined;
  /** Ends the time for which its seat is held; set while it is. */
  cancelHold: (() => void) | undefined;
  width: number;
  /** Whether it was told RUNNING last. */
  running = false;
  /** Whether it takes part in the sequence that the world is in. */
  playing = false;
  /** True once its first step in this sequence has arrived. */
  entered = false;
  /** True once it has been in a sequence: in real time the next one begins with it. */
  takesPart = false;
  step: OutstandingStep | undefined;
  /** Whether its reset is outstanding. */
  resetting = false;
  untold: UntoldEnd | undefined;
  /** Whether the others do not wait for it. */
  outside = false;
  /** What was rewarded since it was last answered. */
  reward = 0;
  last: Actions | undefined;

  constructor(id: number, asker: Asker, width: number, key: string | undefined) {
    this.key = key;
    this.id = id;
    this.asker = asker;
    this.width = width;
  }

  /** Whether its first step is outstanding and waits for a sequence. */
  get opening(): boolean {
    return this.step !== undefined && !this.playing;
  }

  /** Whether nothing is outstanding, and it is in no sequence. */
  get idle(): boolean {
    return this.step === undefined && !this.playing && !this.resetting;
  }

  /** It is answered, which starts a new sum of rewards. */
  answerStep(state: "RUNNING" | "TERMINATED" | "INTERRUPTED", all: Observations): void {
    const requested = this.step?.requested ?? [];
    this.step = undefined;
    this.reward = 0;
    this.running = state === "RUNNING";
    this.asker.answer({ kind: "step", state, observations: pick(all, requested) });
  }

  answerReset(): void {
    this.resetting = false;
    this.asker.answer({ kind: "reset", width: this.width });
  }

  /** Whatever it was in or owed is behind it: its next step is a first one. */
  startAnew(): void {
    this.playing = false;
    this.running = false;
    this.untold = undefined;
    this.reward = 0;
  }
}

function pick(all: Observations, requested: readonly ObservationName[]): Observations {
  return Object.fromEntries(
    observationNames.filter((name) => requested.includes(name)).map((name) => [name, all[name]]),
  );
}

/** What a step is, when nothing is wrong with it. */
export function outstanding(request: Extract<Request, { kind: "step" }>): OutstandingStep {
  const { action, sleep, requested } = request;
  const add = typeof action === "number" ? { add: action } : {};
  return {
    actions: { ...add, ...(sleep > 0 ? { sleep } : {}) },
    requested: requested === "unknown" ? [] : requested,
  };
}
