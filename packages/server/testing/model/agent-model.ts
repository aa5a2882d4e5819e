// SPDX-License-Identifier: Apache-2.0
import { type Answer, type ObservationName, observationNames, type Request } from "./requests.ts";

/** The sender of a request, which receives its answer. */
export interface Asker {
  answer(answer: Answer): void;
}

/** Actions of an agent in one tick. */
export interface Actions {
  readonly add?: number;
  readonly sleep?: number;
}

/** A step that is outstanding. */
export interface OutstandingStep {
  readonly actions: Actions;
  readonly requested: readonly ObservationName[];
}

/** Observations of an agent at some moment, delivered or not. */
export type Observations = Extract<Answer, { kind: "step" }>["observations"];

/** The undelivered end of a sequence. */
export interface UntoldEnd {
  readonly state: "TERMINATED" | "INTERRUPTED";
  readonly observations: Observations;
}

/** One agent in a world, as the behaviours describe it. */
export class AgentModel {
  readonly id: number;
  asker: Asker;
  /** A join with the same key resumes its seat. */
  readonly key: string | undefined;
  /** Cancels the timer of its held seat; set while it is held. */
  cancelHold: (() => void) | undefined;
  width: number;
  /** True if its last response was RUNNING. */
  running = false;
  /** True while it takes part in the world's sequence. */
  playing = false;
  /** True once its first step in this sequence has arrived. */
  entered = false;
  /** True once it has been in a sequence: in real time the next one begins with it. */
  takesPart = false;
  step: OutstandingStep | undefined;
  /** True while its reset is outstanding. */
  resetting = false;
  untold: UntoldEnd | undefined;
  /** True if the others do not wait for it. */
  outside = false;
  /** Sum of rewards since its last response. */
  reward = 0;
  last: Actions | undefined;

  constructor(id: number, asker: Asker, width: number, key: string | undefined) {
    this.key = key;
    this.id = id;
    this.asker = asker;
    this.width = width;
  }

  /** True while its first step is outstanding and waits for a sequence. */
  get opening(): boolean {
    return this.step !== undefined && !this.playing;
  }

  /** True if it is in no sequence and has no outstanding request. */
  get idle(): boolean {
    return this.step === undefined && !this.playing && !this.resetting;
  }

  /** Answers its step, and resets the sum of rewards. */
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

  /** Discards its sequence and any undelivered end: its next step is a first one. */
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

/** Returns the outstanding step of a valid request. */
export function outstanding(request: Extract<Request, { kind: "step" }>): OutstandingStep {
  const { action, sleep, requested } = request;
  const add = typeof action === "number" ? { add: action } : {};
  return {
    actions: { ...add, ...(sleep > 0 ? { sleep } : {}) },
    requested: requested === "unknown" ? [] : requested,
  };
}
