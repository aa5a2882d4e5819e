// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Environment } from "../environment.ts";
import type { TimeStep } from "../time-step.ts";
import { Lags } from "./lags.ts";
import type { RealtimeInfo } from "./realtime-environment.ts";

/** What was taken from a channel. */
export interface Taken<Observation> {
  readonly observation: Observation | null;
  readonly reward: number;
  readonly done: boolean;
  readonly info: RealtimeInfo;
}

/** How a channel speaks to its world. */
export interface ChannelOptions<Action, Observation> {
  readonly time: TimeSource;
  readonly idleAction: Action;
  readonly pollIntervalMs: number;
  readonly maxInFlight: number;
  readonly remoteTimeMs: ((observation: Observation) => number | undefined) | undefined;
  /** Something has come. */
  readonly onChange: () => void;
}

/**
 * One environment that runs on: keeps asking for the newest observation, sends actions at
 * once, and sums up what comes, never across the end of a sequence.
 */
export class Channel<Action, Observation> {
  readonly #environment: Environment<Action, Observation>;
  readonly #options: ChannelOptions<Action, Observation>;
  readonly #lags: Lags;
  #status: RealtimeInfo["status"] | "new" = "new";
  #failure: Error | undefined;
  #observation: Observation | null = null;
  #reward = 0;
  #framesLost = 0;
  #fresh = false;
  #inFlight = 0;
  #waitingAction: { readonly action: Action; readonly givenAt: number } | undefined;
  #cancelPoll: (() => void) | undefined;
  /** Counts resets: what was sent before one is not of the new sequence. */
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
    return this.#observation;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  reset(): void {
    if (this.#failure !== undefined) return;
    this.#forget();
    this.#status = "resetting";
    const generation = ++this.#generation;
    const sentAt = this.#options.time.now();
    this.#environment
      .reset()
      .then((step) => this.#came(step, generation, sentAt, undefined))
      .catch((error: unknown) => this.#failed(error));
  }

  /** @throws DmEnvRpcError FAILED_PRECONDITION before the first reset. */
  act(action: Action): void {
    if (this.#status === "new") {
      throw new DmEnvRpcError(
        "FAILED_PRECONDITION",
        "cannot act before the first reset; call reset() first",
        { origin: "client" },
      );
    }
    if (this.#status !== "running") return;
    const givenAt = this.#options.time.now();
    if (this.#inFlight >= this.#options.maxInFlight) this.#waitingAction = { action, givenAt };
    else this.#send(action, givenAt);
  }

  take(truncated = false): Taken<Observation> {
    const done = this.#status === "over";
    const status = this.#status === "new" ? "resetting" : this.#status;
    const taken = {
      observation: this.#observation,
      reward: this.#reward,
      done,
      info: {
        status,
        failure: this.#failure,
        ...this.#lags.read(this.#observation !== null),
        framesLost: this.#framesLost,
        truncated,
        sequence: null,
      },
    };
    this.#reward = 0;
    this.#framesLost = 0;
    this.#fresh = false;
    this.#lags.rewardTaken();
    if (done) this.reset();
    return taken;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelPoll?.();
    await this.#environment.close();
  }

  #forget(): void {
    this.#cancelPoll?.();
    this.#observation = null;
    this.#reward = 0;
    this.#framesLost = 0;
    this.#fresh = false;
    this.#waitingAction = undefined;
    this.#lags.rewardTaken();
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
      // What `remoteTimeMs` throws fails the environment too: nobody else would be told.
      .then((step) => this.#came(step, generation, sentAt, givenAt))
      .catch((error: unknown) => this.#failed(error));
  }

  #came(
    step: TimeStep<Observation>,
    generation: number,
    sentAt: number,
    givenAt: number | undefined,
  ): void {
    if (this.#closed || generation !== this.#generation) return;
    // A step that overtook the end of its sequence begins the next one: that is not this one's.
    if (this.#status === "over") return;
    this.#lags.answered(sentAt, givenAt, this.#options.remoteTimeMs?.(step.observation));
    if (this.#fresh) this.#framesLost++;
    this.#fresh = true;
    this.#observation = step.observation;
    if (step.reward !== null) {
      this.#reward += step.reward;
      this.#lags.rewarded();
    }
    this.#status = step.last() ? "over" : "running";
    this.#options.onChange();
    if (this.#status === "running") this.#goOn();
  }

  /** Sends the action that waits, or asks for the next observation when it is time. */
  #goOn(): void {
    const waiting = this.#waitingAction;
    if (waiting !== undefined) {
      this.#waitingAction = undefined;
      this.#send(waiting.action, waiting.givenAt);
    } else if (this.#inFlight === 0 && this.#cancelPoll === undefined) {
      this.#cancelPoll = this.#options.time.after(this.#options.pollIntervalMs, () => {
        this.#cancelPoll = undefined;
        if (!this.#closed && this.#status === "running" && this.#inFlight === 0)
          this.#send(this.#options.idleAction, undefined);
      });
    }
  }

  #failed(reason: unknown): void {
    if (this.#closed || this.#failure !== undefined) return;
    this.#failure = toError(reason);
    this.#forget();
    this.#status = "failed";
    this.#options.onChange();
  }
}
