// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  isDmEnvRpcError,
  isTensorError,
  type Specs,
} from "@dm-env-rpc/tensor-codec";
import { messageOf } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../agent.ts";
import { type Awaitable, isPromiseLike } from "../awaitable.ts";
import type { ActionValues } from "../clock.ts";
import type { SeededRandom } from "../random.ts";
import { isStepRefusal } from "../refuse.ts";
import type { SettingSpecs, SettingValues } from "../settings.ts";
import {
  checkEnvironment,
  checkStep,
  type EnvironmentStep,
  type UntypedEnvironment,
} from "../single-agent.ts";
import type { Picture, SequenceStart, UntypedWorld } from "../world.ts";
import { ActionReader, type SlotActions } from "./actions.ts";
import type { BatchHost } from "./request.ts";
import { type Rows, rewardOf } from "./rows.ts";
import type { Sequences } from "./sequences.ts";
import { SlotCalls } from "./slot-calls.ts";
import type { SlotSettings } from "./slot-settings.ts";

type Values = SettingValues<SettingSpecs>;

/** Options of a batch of environments. */
export interface SlotBatchOptions {
  readonly host: BatchHost;
  readonly actions: Specs;
  readonly rows: Rows;
  readonly sequences: Sequences;
  /** Creates the environment of a slot. */
  make(joinSettings: Values, random: SeededRandom): Awaitable<UntypedEnvironment>;
  readonly settings: SlotSettings;
}

/** One slot. */
interface Slot {
  readonly random: SeededRandom;
  /** Undefined after a failure, until the slot's next sequence begins. */
  environment: UntypedEnvironment | undefined;
  /** Error of the environment's `validate` that is not a refusal. */
  fault: unknown;
}

/**
 * The environments of one agent's batch, each with its own sequence, seed and end (behaviours
 * 70–72).
 *
 * The ends of slots never end the sequence of the world itself.
 */
export class SlotBatch {
  readonly #options: SlotBatchOptions;
  readonly #rows: Rows;
  readonly #slots: readonly Slot[];
  readonly #reader: ActionReader;
  readonly #calls: SlotCalls;
  readonly #sequences: Sequences;
  #joinSettings: Values = {};
  #isClosed = false;
  /** True once a step's result was checked for unknown properties. */
  #isStepChecked = false;
  /** The latest actions, read once for `validate` and `step`. */
  #read: SlotActions | undefined;
  // Slots that failed in the current transition.
  #failed = 0;
  #failedToBegin = 0;
  #firstFailed = 0;
  #firstError: Error | undefined;
  readonly observe: UntypedWorld["observe"];
  /** Picture of slot 0; undefined if its environment has none. */
  picture?: () => Picture;

  constructor(options: SlotBatchOptions) {
    const { host, actions, rows, sequences, settings } = options;
    this.#options = options;
    this.#rows = rows;
    this.observe = this.#rows.observers() as UntypedWorld["observe"];
    this.#reader = new ActionReader(actions);
    this.#calls = new SlotCalls(host);
    this.#sequences = sequences;
    this.#slots = settings.randoms.map((random) => ({
      random,
      environment: undefined,
      fault: undefined,
    }));
  }

  /** Creates an environment for each slot, or none if one fails. */
  join(_agent: AgentId, settings: Values): Awaitable<void> {
    this.#joinSettings = settings;
    let failure: { readonly error: unknown } | undefined;
    for (let slot = 0; slot < this.#slots.length && failure === undefined; slot++) {
      this.#make(
        slot,
        () => {},
        (error) => {
          failure ??= { error };
        },
      );
    }
    return this.#calls.settled(() => {
      if (failure !== undefined) {
        this.#closeAll();
        throw failure.error;
      }
      const [shown] = this.#slots;
      if (shown?.environment?.picture !== undefined) {
        this.picture = () => shown.environment?.picture?.() ?? "";
      }
    });
  }

  #make(slot: number, then: () => void, failed: (error: unknown) => void): void {
    const { make, settings } = this.#options;
    const of = this.#slots[slot] as Slot;
    this.#calls.call(() => make(settings.inJoin(this.#joinSettings, slot), of.random), {
      limit: "joinMs",
      use: (created) => {
        if (this.#isClosed) {
          this.#close(slot, created);
          return;
        }
        of.environment = checkEnvironment(created);
        then();
      },
      failed,
      late: (created) => this.#close(slot, created),
    });
  }

  /** Closes the created environments. */
  destroy(): void {
    this.#isClosed = true;
    this.#calls.stop();
    this.#closeAll();
  }

  #closeAll(): void {
    for (let slot = 0; slot < this.#slots.length; slot++) {
      this.#drop(slot);
    }
  }

  /** Closes the environment of a slot, if it has one. */
  #drop(slot: number): void {
    const of = this.#slots[slot] as Slot;
    const { environment } = of;
    of.environment = undefined;
    if (environment !== undefined) {
      this.#close(slot, environment);
    }
  }

  /** Closes an environment without awaiting it; its error is reported. */
  #close(slot: number, environment: UntypedEnvironment): void {
    const report = (error: unknown): void =>
      this.#options.host.onFailed({ count: 1, slot, error: errorOf(error) });
    try {
      environment.close?.()?.then(undefined, report);
    } catch (error) {
      report(error);
    }
  }

  reset(_agent: AgentId, settings: Values): void {
    this.#options.settings.change(settings);
  }

  /** Begins the sequence of every slot. */
  start({ isReseeded }: SequenceStart<unknown>): Awaitable<void> {
    const settingsOf = this.#options.settings.begin(isReseeded);
    for (let slot = 0; slot < this.#slots.length; slot++) {
      this.#begin(slot, settingsOf(slot), false);
    }
    return this.#over();
  }

  /** Validates a step; if it throws, no slot is affected. */
  validate(_agent: AgentId, values: ActionValues): void {
    const actions = this.#reader.read(values);
    this.#read = actions;
    this.#sequences.check(actions);
    if (actions.isResetAlone) {
      return;
    }
    for (let slot = 0; slot < this.#slots.length; slot++) {
      const of = this.#slots[slot] as Slot;
      if (of.environment?.validate !== undefined && !this.#sequences.begins(slot, actions)) {
        validateSlot(of, slot, of.environment, actions);
      }
    }
  }

  step(actions: ReadonlyMap<AgentId, ActionValues>): Awaitable<void> {
    const [values = {}] = actions.values();
    const read = this.#read?.values === values ? this.#read : this.#reader.read(values);
    this.#read = undefined;
    const { settings } = this.#options;
    for (let slot = 0; slot < this.#slots.length; slot++) {
      if (this.#sequences.begins(slot, read)) {
        this.#begin(slot, settings.beginAlone(slot, read.seedOf(slot)), false);
      } else if (read.isResetAlone) {
        this.#rows.hold(slot);
      } else {
        this.#act(slot, read);
      }
    }
    return this.#over();
  }

  /**
   * @param isInStep True if the slot's previous sequence ended in the current step: the response
   * then reports that end instead of the beginning.
   */
  #begin(slot: number, settings: Values, isInStep: boolean): void {
    const of = this.#slots[slot] as Slot;
    const failed = (error: unknown): void => this.#failToBegin(slot, error, isInStep);
    const reset = (): void => {
      this.#calls.call(() => (of.environment as UntypedEnvironment).reset(settings), {
        limit: "resetMs",
        use: (observation) => {
          this.#rows.observe(slot, observation);
          this.#sequences.over[slot] = 0;
          if (!isInStep) {
            this.#rows.begin(slot);
          }
        },
        failed,
      });
    };
    if (of.environment === undefined) {
      this.#make(slot, reset, failed);
    } else {
      reset();
    }
  }

  #act(slot: number, actions: SlotActions): void {
    const of = this.#slots[slot] as Slot;
    try {
      if (of.fault !== undefined) {
        throw of.fault;
      }
      const stepped = (of.environment as UntypedEnvironment).step(actions.of(slot));
      if (isPromiseLike(stepped)) {
        this.#calls.wait(stepped, {
          limit: "stepMs",
          use: (step) => this.#acted(slot, step),
          failed: (error) => this.#failStep(slot, error),
        });
      } else {
        this.#acted(slot, stepped);
      }
    } catch (error) {
      this.#failStep(slot, error);
    }
  }

  /** @throws TensorError if the result does not fit the specs; Error if it has an unknown property. */
  #acted(slot: number, step: EnvironmentStep<Specs>): void {
    if (!this.#isStepChecked) {
      checkStep(step);
      this.#isStepChecked = true;
    }
    const { observation, reward, state = "running" } = step;
    const earned = rewardOf(reward);
    this.#rows.observe(slot, observation);
    this.#rows.step(slot, earned, state);
    if (state !== "running") {
      this.#end(slot);
    }
  }

  #end(slot: number): void {
    this.#sequences.over[slot] = 1;
    if (this.#sequences.autoreset === "same-step") {
      this.#rows.keepFinal(slot);
      this.#begin(slot, this.#options.settings.changed, true);
    }
  }

  /**
   * Handles a failed environment: the sequence of its slot is cut short with the last observation
   * (behaviour 72).
   */
  #failStep(slot: number, error: unknown): void {
    this.#fail(slot, error);
    this.#rows.step(slot, 0, "interrupted");
    this.#end(slot);
  }

  #failToBegin(slot: number, error: unknown, isInStep: boolean): void {
    this.#fail(slot, error);
    this.#failedToBegin += 1;
    this.#sequences.over[slot] = 1;
    if (!isInStep) {
      this.#rows.miss(slot);
    }
  }

  #fail(slot: number, error: unknown): void {
    const of = this.#slots[slot] as Slot;
    of.fault = undefined;
    this.#drop(slot);
    this.#rows.fail(slot);
    if (this.#failed === 0 || slot < this.#firstFailed) {
      this.#firstFailed = slot;
      this.#firstError = errorOf(error);
    }
    this.#failed += 1;
  }

  /** Completes the transition once every slot is done, and reports failed slots. */
  #over(): Awaitable<void> {
    return this.#calls.settled(() => {
      const [failed, failedToBegin, error] = [this.#failed, this.#failedToBegin, this.#firstError];
      if (error === undefined) {
        return;
      }
      this.#failed = 0;
      this.#failedToBegin = 0;
      this.#firstError = undefined;
      this.#options.host.onFailed({ count: failed, slot: this.#firstFailed, error });
      if (failedToBegin === this.#slots.length) {
        throw new Error(`no slot can begin a sequence: ${messageOf(error)}`, { cause: error });
      }
    });
  }
}

/** @throws DmEnvRpcError naming the slot whose environment refuses the actions. */
function validateSlot(
  of: Slot,
  slot: number,
  environment: UntypedEnvironment,
  actions: SlotActions,
): void {
  of.fault = undefined;
  try {
    environment.validate?.(actions.of(slot));
  } catch (error) {
    if (!isDmEnvRpcError(error) && !isTensorError(error)) {
      of.fault = error;
      return;
    }
    const code = isDmEnvRpcError(error) ? error.code : "INVALID_ARGUMENT";
    throw new DmEnvRpcError(code, `slot ${slot}: ${error.message}`, { cause: error });
  }
}

function errorOf(error: unknown): Error {
  if (isStepRefusal(error)) {
    return new Error(
      `"step" refused its actions after other slots had stepped: ${error.message}; refuse them in "validate", which is called before any slot steps`,
      { cause: error },
    );
  }
  return error instanceof Error ? error : new Error(messageOf(error), { cause: error });
}
