// SPDX-License-Identifier: Apache-2.0
import type { Specs } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../agent.ts";
import { type Awaitable, andThen } from "../awaitable.ts";
import {
  type BatchContext,
  checkBatchEnvironment,
  type UntypedBatchEnvironment,
} from "../batch-environment.ts";
import type { ActionValues } from "../clock.ts";
import type { SettingSpecs, SettingValues } from "../settings.ts";
import type { SequenceStart, UntypedWorld } from "../world.ts";
import { ActionReader, type SlotActions } from "./actions.ts";
import type { Rows } from "./rows.ts";
import type { Sequences } from "./sequences.ts";
import type { SlotSettings } from "./slot-settings.ts";

type Values = SettingValues<SettingSpecs>;

/** Options of a batch that is simulated in arrays. */
export interface ArrayBatchOptions {
  readonly size: number;
  readonly actions: Specs;
  readonly rows: Rows;
  readonly sequences: Sequences;
  readonly settings: SlotSettings;
  /** Creates the environments of all slots. */
  make(
    context: Omit<BatchContext<never, Values, Specs>, "settings">,
  ): Awaitable<UntypedBatchEnvironment>;
}

/** A batch whose author simulates all environments in arrays (behaviours 70, 71). */
export class ArrayBatch {
  readonly #options: ArrayBatchOptions;
  readonly #reader: ActionReader;
  readonly #terminated: Uint8Array;
  readonly #interrupted: Uint8Array;
  readonly #everySlot: Int32Array;
  /** Buffers for the slots that act, and for the slots that begin a sequence. */
  readonly #acting: Int32Array;
  readonly #beginning: Int32Array;
  #environments: UntypedBatchEnvironment | undefined;
  #isClosed = false;
  /** The latest actions, read once for `validate` and `step`. */
  #read: SlotActions | undefined;
  readonly observe: UntypedWorld["observe"];

  constructor(options: ArrayBatchOptions) {
    const { size, actions, rows } = options;
    this.#options = options;
    this.#reader = new ActionReader(actions);
    this.#terminated = new Uint8Array(size);
    this.#interrupted = new Uint8Array(size);
    this.#everySlot = Int32Array.from({ length: size }, (_, slot) => slot);
    this.#acting = new Int32Array(size);
    this.#beginning = new Int32Array(size);
    this.observe = rows.observers() as UntypedWorld["observe"];
  }

  join(_agent: AgentId, joinSettings: Values): Awaitable<void> {
    const { size, rows, settings, make } = this.#options;
    const made = make({
      size,
      joinSettings,
      random: settings.randoms,
      observation: rows.arrays,
      reward: rows.reward,
      terminated: this.#terminated,
      interrupted: this.#interrupted,
    });
    return andThen(made, (created) => {
      this.#environments = checkBatchEnvironment(created);
      return this.#isClosed ? this.#close() : undefined;
    });
  }

  destroy(): Awaitable<void> {
    this.#isClosed = true;
    return this.#close();
  }

  #close(): Awaitable<void> {
    const environments = this.#environments;
    this.#environments = undefined;
    return environments?.close?.();
  }

  reset(_agent: AgentId, settings: Values): void {
    this.#options.settings.change(settings);
  }

  /** Begins the sequence of every slot. */
  start({ isReseeded }: SequenceStart<unknown>): Awaitable<void> {
    this.#options.settings.begin(isReseeded);
    this.#terminated.fill(0);
    this.#interrupted.fill(0);
    return this.#begin(this.#everySlot.slice());
  }

  /**
   * @param slots Slots that begin. If a slot's previous sequence ended in this step, its step type,
   * reward and end stay in the response.
   */
  #begin(slots: Int32Array): Awaitable<void> {
    const { rows, sequences, settings } = this.#options;
    const reset = this.#environments?.reset(slots, settings.changed);
    return andThen(reset, () => {
      for (let i = 0; i < slots.length; i++) {
        const slot = slots[i] as number;
        sequences.over[slot] = 0;
        if (!this.#hasEnded(slot)) {
          rows.begin(slot);
        }
      }
    });
  }

  #hasEnded(slot: number): boolean {
    return this.#terminated[slot] === 1 || this.#interrupted[slot] === 1;
  }

  /** Validates a step; if it throws, no slot is affected. */
  validate(_agent: AgentId, values: ActionValues): void {
    const actions = this.#reader.read(values);
    this.#read = actions;
    this.#options.sequences.check(actions);
    if (this.#environments?.validate !== undefined && !actions.isResetAlone) {
      this.#environments.validate(actions.arrays(), this.#actors(actions));
    }
  }

  /** Returns the slots that act in a step: all slots that do not begin a sequence. */
  #actors(actions: SlotActions): Int32Array {
    const { sequences } = this.#options;
    if (actions.isResetAlone) {
      return this.#acting.subarray(0, 0);
    }
    if (actions.mask === undefined && !sequences.over.includes(1)) {
      this.#acting.set(this.#everySlot);
      return this.#acting;
    }
    let count = 0;
    for (let slot = 0; slot < this.#acting.length; slot++) {
      if (!sequences.begins(slot, actions)) {
        this.#acting[count] = slot;
        count += 1;
      }
    }
    return this.#acting.subarray(0, count);
  }

  step(actions: ReadonlyMap<AgentId, ActionValues>): Awaitable<void> {
    const [values = {}] = actions.values();
    const read = this.#read?.values === values ? this.#read : this.#reader.read(values);
    this.#read = undefined;
    const { rows } = this.#options;
    const acting = this.#actors(read);
    rows.reward.fill(0);
    this.#terminated.fill(0);
    this.#interrupted.fill(0);
    const stepped =
      acting.length === 0 ? undefined : this.#environments?.step(read.arrays(), acting);
    return andThen(stepped, () => this.#settle(read, acting));
  }

  #settle(actions: SlotActions, acting: Int32Array): Awaitable<void> {
    const { size, rows, sequences, settings } = this.#options;
    const terminated = this.#terminated;
    const interrupted = this.#interrupted;
    const beginning = this.#beginning;
    let begun = 0;
    for (let slot = 0; acting.length < size && slot < size; slot++) {
      if (sequences.begins(slot, actions)) {
        // Discards ends that the author wrote for a slot that does not act.
        terminated[slot] = 0;
        interrupted[slot] = 0;
        settings.beginAlone(slot, actions.seedOf(slot));
        beginning[begun] = slot;
        begun += 1;
      }
    }
    rows.stepMany(acting, terminated, interrupted);
    const isSameStep = sequences.autoreset === "same-step";
    for (let i = 0; i < acting.length; i++) {
      const slot = acting[i] as number;
      if (terminated[slot] !== 1 && interrupted[slot] !== 1) {
        continue;
      }
      sequences.over[slot] = 1;
      if (isSameStep) {
        rows.keepFinal(slot);
        beginning[begun] = slot;
        begun += 1;
      }
    }
    return begun === 0 ? undefined : this.#begin(beginning.subarray(0, begun).sort());
  }
}
