// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import { type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Environment } from "../environment/environment.ts";
import type { TimeStep } from "../environment/time-step.ts";
import { isRefusal } from "../stream/faults.ts";
import { Lags } from "./lags.ts";
import type { RealtimeInfo } from "./realtime-environment.ts";

/** Values taken from a channel. */
export interface Taken<Observation> {
  readonly observation: Observation | null;
  readonly reward: number;
  readonly done: boolean;
  readonly info: RealtimeInfo;
}

/** Options of a channel. */
export interface ChannelOptions<Action, Observation> {
  readonly time: TimeSource;
  readonly idleAction: Action;
  readonly pollIntervalMs: number;
  readonly maxInFlight: number;
  readonly remoteTimeMs: ((observation: Observation) => number | undefined) | undefined;
  /** Called when a step, a refusal or a failure arrives. */
  readonly onChange: () => void;
}

/** Values of one sequence that have not been taken yet. */
interface Untaken<Observation> {
  observation: Observation;
  /** Time when the observation was made, on this machine's clock. */
  madeAt: number;
  reward: number;
  /** Time when the oldest reward of the sum was made; undefined if there is no reward. */
  rewardedAt: number | undefined;
  framesLost: number;
  /** True if the observation has not been taken yet. */
  isFresh: boolean;
}

/**
 * One environment that keeps running: polls for the newest observation, sends actions at once, and
 * adds up the rewards of each sequence.
 *
 * A poll sends the idle action, which is empty by default. After a sequence has ended, no poll is sent
 * until `take` has returned the end. A request that is in flight when a sequence ends begins the next
 * sequence; the channel adopts that sequence instead of starting another.
 */
export class Channel<Action, Observation> {
  readonly #environment: Environment<Action, Observation>;
  readonly #options: ChannelOptions<Action, Observation>;
  readonly #lags: Lags;
  #isNew = true;
  #failure: Error | undefined;
  /** Error of the newest refused action since the last take. */
  #refusal: Error | undefined;
  /** Ended sequences, oldest first; at most one for each request in flight. */
  #ended: Untaken<Observation>[] = [];
  /** The running sequence; undefined until the next one has begun. */
  #running: Untaken<Observation> | undefined;
  #inFlight = 0;
  #waitingAction: { readonly action: Action; readonly givenAt: number } | undefined;
  #cancelPoll: (() => void) | undefined;
  /** Number of resets. Responses to requests from before a reset are ignored. */
  #generation = 0;
  #closed = false;

  constructor(
    environment: Environment<Action, Observation>,
    options: ChannelOptions<Action, Observation>,
  ) {
    this.#environment = environment;
    this.#options = options;
    this.#lags = new Lags(options.time);
  }

  get observation(): Observation | null {
    return this.#next?.observation ?? null;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  reset(): void {
    if (this.#failure !== undefined) {
      return;
    }
    this.#forget();
    this.#isNew = false;
    const generation = ++this.#generation;
    const sentAt = this.#options.time.now();
    this.#environment
      .reset()
      .then((step) => this.#arrived(step, generation, sentAt, undefined))
      .catch((error: unknown) => this.#failed(error));
  }

  /** @throws DmEnvRpcError FAILED_PRECONDITION before the first reset. */
  act(action: Action): void {
    if (this.#isNew) {
      throw new DmEnvRpcError(
        "FAILED_PRECONDITION",
        "cannot act before the first reset; call reset() first",
        { origin: "client" },
      );
    }
    if (this.#status !== "running") {
      return;
    }
    const givenAt = this.#options.time.now();
    if (this.#inFlight >= this.#options.maxInFlight) {
      this.#waitingAction = { action, givenAt };
    } else {
      this.#send(action, givenAt);
    }
  }

  take(truncated = false): Taken<Observation> {
    const status = this.#status;
    const done = status === "over";
    const untaken = this.#next;
    const taken = {
      observation: untaken?.observation ?? null,
      reward: untaken?.reward ?? 0,
      done,
      info: {
        status,
        failure: this.#failure,
        refusal: this.#refusal,
        ...this.#lags.read(untaken),
        framesLost: untaken?.framesLost ?? 0,
        truncated,
        sequence: null,
      },
    };
    this.#refusal = undefined;
    if (done) {
      this.#ended.shift();
      this.#continue();
    } else if (untaken !== undefined) {
      untaken.reward = 0;
      untaken.rewardedAt = undefined;
      untaken.framesLost = 0;
      untaken.isFresh = false;
    }
    return taken;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelPoll?.();
    await this.#environment.close();
  }

  /** The sequence from which values are taken next. */
  get #next(): Untaken<Observation> | undefined {
    return this.#ended[0] ?? this.#running;
  }

  get #status(): RealtimeInfo["status"] {
    if (this.#failure !== undefined) {
      return "failed";
    }
    if (this.#ended.length > 0) {
      return "over";
    }
    return this.#running === undefined ? "resetting" : "running";
  }

  #forget(): void {
    this.#cancelPoll?.();
    this.#cancelPoll = undefined;
    this.#ended = [];
    this.#running = undefined;
    this.#waitingAction = undefined;
    this.#refusal = undefined;
  }

  #send(action: Action, givenAt: number | undefined): void {
    this.#cancelPoll?.();
    this.#cancelPoll = undefined;
    this.#inFlight++;
    const generation = this.#generation;
    const sentAt = this.#options.time.now();
    const answered = (): void => {
      this.#inFlight--;
    };
    this.#environment
      .step(action)
      .finally(answered)
      // An error that `remoteTimeMs` throws also fails the environment: otherwise, no caller would see
      // it.
      .then(
        (step) => this.#arrived(step, generation, sentAt, givenAt),
        (error: unknown) => this.#rejected(error, generation, givenAt),
      )
      .catch((error: unknown) => this.#failed(error));
  }

  /**
   * Handles a failed request. A refused action does not end the environment; if it was refused because
   * the world is gone, the next poll fails too. Any other error ends the environment.
   */
  #rejected(error: unknown, generation: number, givenAt: number | undefined): void {
    if (givenAt === undefined || !(isRefusal(error) || isTensorError(error))) {
      this.#failed(error);
      return;
    }
    if (this.#closed || generation !== this.#generation) {
      return;
    }
    this.#refusal = error;
    this.#options.onChange();
    this.#continue();
  }

  #arrived(
    step: TimeStep<Observation>,
    generation: number,
    sentAt: number,
    givenAt: number | undefined,
  ): void {
    if (this.#closed || generation !== this.#generation) {
      return;
    }
    const { observation, reward } = step;
    const remoteMs = this.#options.remoteTimeMs?.(observation);
    const madeAt = this.#lags.answered(sentAt, givenAt, remoteMs);
    const before = this.#running;
    const rewardedAt = before?.rewardedAt ?? (reward === null ? undefined : madeAt);
    const untaken: Untaken<Observation> = {
      observation,
      madeAt,
      reward: (before?.reward ?? 0) + (reward ?? 0),
      rewardedAt,
      framesLost: (before?.framesLost ?? 0) + (before?.isFresh === true ? 1 : 0),
      isFresh: true,
    };
    if (step.last()) {
      this.#ended.push(untaken);
      this.#running = undefined;
      this.#waitingAction = undefined;
    } else {
      this.#running = untaken;
    }
    this.#options.onChange();
    this.#continue();
  }

  /**
   * Sends the waiting action, or polls after the interval. Once `take` has returned the end of a
   * sequence, begins the next one.
   */
  #continue(): void {
    if (this.#closed || this.#ended.length > 0) {
      return;
    }
    const waiting = this.#waitingAction;
    if (waiting !== undefined) {
      this.#waitingAction = undefined;
      this.#send(waiting.action, waiting.givenAt);
      return;
    }
    // The response to the request in flight calls this method again. If no sequence is running, that
    // request begins the next one.
    if (this.#inFlight > 0) {
      return;
    }
    if (this.#running === undefined) {
      this.#send(this.#options.idleAction, undefined);
      return;
    }
    // A request, a reset, the end of a sequence or a failure cancels the poll.
    this.#cancelPoll ??= this.#options.time.after(this.#options.pollIntervalMs, () => {
      this.#cancelPoll = undefined;
      this.#send(this.#options.idleAction, undefined);
    });
  }

  #failed(reason: unknown): void {
    if (this.#closed || this.#failure !== undefined) {
      return;
    }
    this.#failure = toError(reason);
    this.#forget();
    this.#options.onChange();
  }
}
