// SPDX-License-Identifier: Apache-2.0

import type {
  ProcessRequest,
  ProcessResponse,
  StepRequest,
  StepResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { toError } from "@dm-env-rpc/transport/internal";
import { Call, RequestCall } from "../stream/call.ts";
import type { DynamicAction, DynamicObservation } from "./definition.ts";
import type { TimeStep } from "./time-step.ts";

type Step = TimeStep<DynamicObservation>;

/** Source of the requests of steps, and receiver of their responses. */
export interface Stepper {
  /** @throws TensorError if the action does not fit. */
  request(action: DynamicAction): StepRequest;
  /** Applies the response's state, even if no caller waits for it. May throw. */
  answer(response: StepResponse): Step;
}

/** One step. */
export class StepCall extends RequestCall<Step> {
  readonly #stepper: Stepper;

  constructor(stepper: Stepper, request: StepRequest) {
    super({ case: "step", value: request });
    this.#stepper = stepper;
  }

  override onResponse(response: ProcessResponse): void {
    if (response.case !== "step") {
      return;
    }
    let step: Step;
    try {
      step = this.#stepper.answer(response.value);
    } catch (error) {
      this.fail(toError(error));
      return;
    }
    this.succeed(step);
  }
}

/** Many steps with one promise. Each request is created when the window has room for it. */
export class BatchCall extends Call<Step[]> {
  readonly kind = "step";
  readonly #stepper: Stepper;
  readonly #actions: Iterator<DynamicAction>;
  readonly #steps: Step[] = [];
  /** The next action to send, read one ahead so that the end of the actions is detected in time. */
  #ahead: DynamicAction | undefined;
  #open = 0;

  constructor(stepper: Stepper, actions: Iterable<DynamicAction>) {
    super();
    this.#stepper = stepper;
    this.#actions = actions[Symbol.iterator]();
    this.#look();
    this.#settleWhenDone();
  }

  override get more(): boolean {
    return this.#ahead !== undefined;
  }

  override next(): ProcessRequest | undefined {
    const action = this.#ahead;
    if (action === undefined) {
      return undefined;
    }
    try {
      const value = this.#stepper.request(action);
      this.#look();
      this.#open++;
      return { case: "step", value };
    } catch (error) {
      this.fail(toError(error));
      return undefined;
    }
  }

  override onWait(): void {}

  override onResponse(response: ProcessResponse): void {
    if (response.case !== "step") {
      return;
    }
    this.#open--;
    try {
      this.#steps.push(this.#stepper.answer(response.value));
    } catch (error) {
      this.fail(toError(error));
    }
    this.#settleWhenDone();
  }

  protected override fail(error: Error): void {
    super.fail(error);
    if (this.#ahead === undefined) {
      return;
    }
    this.#ahead = undefined;
    this.#actions.return?.();
  }

  #look(): void {
    const { done, value } = this.#actions.next();
    this.#ahead = done === true ? undefined : value;
  }

  #settleWhenDone(): void {
    if (this.#open === 0 && this.#ahead === undefined) {
      this.succeed(this.#steps);
    }
  }
}
