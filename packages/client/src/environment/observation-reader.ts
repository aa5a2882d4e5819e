// SPDX-License-Identifier: Apache-2.0
import {
  type Scalar,
  type Tensor,
  TensorError,
  type TensorSpec,
  toValue,
  unpackFor,
} from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { copied } from "../stream/copied.ts";
import type { DynamicObservation } from "./definition.ts";

type Value = Scalar | Tensor;
type Writable = Record<string, unknown>;

/** Position of an observation's value in the nested record. */
interface Slot {
  readonly uid: Uid;
  readonly name: string;
  readonly spec: TensorSpec;
  readonly role: "reward" | "discount" | undefined;
  /** True if the observation contains it; rewards and discounts only if requested by name. */
  readonly shown: boolean;
  /** Index of its record, and its key in that record. */
  readonly record: number;
  readonly key: string;
}

/** A nested record of the observation: its keys in order, its parent and its key there. */
interface RecordShape {
  readonly template: Writable;
  readonly parent: number;
  readonly key: string;
}

/** The values of a StepResponse. */
export interface Observed {
  observation: DynamicObservation;
  reward: Value | undefined;
  discount: Value | undefined;
}

/**
 * Reads the observations of StepResponses into records of one fixed shape, which is created once
 * for the observations that an environment requests.
 */
export class ObservationReader {
  /** UIDs to request, each once, in ascending order. */
  readonly uids: readonly Uid[];
  /** In ascending order of UIDs, as most servers answer. */
  readonly #slots: readonly Slot[];
  readonly #byUid: ReadonlyMap<Uid, Slot>;
  readonly #records: RecordShape[] = [{ template: {}, parent: 0, key: "" }];
  readonly #copy: boolean;

  /** @param hidden Names that are read but not shown: `reward`, `discount`. */
  constructor(entries: readonly SpecEntry[], hidden: ReadonlySet<string>, copy: boolean) {
    this.#slots = entries.map((entry) => this.#slot(entry, !hidden.has(entry.name)));
    this.#byUid = new Map(this.#slots.map((slot) => [slot.uid, slot]));
    this.uids = this.#slots.map((slot) => slot.uid);
    this.#copy = copy;
  }

  /**
   * @throws TensorError naming the observation that is missing, was not requested, or does not fit
   *   its spec.
   */
  read(received: readonly UidTensor[]): Observed {
    const records = this.#emptyRecords();
    const observed: Observed = {
      observation: records[0] as DynamicObservation,
      reward: undefined,
      discount: undefined,
    };
    for (let i = 0; i < received.length; i++) {
      const { uid, tensor } = received[i] as UidTensor;
      const next = this.#slots[i];
      const slot = next?.uid === uid ? next : this.#byUid.get(uid);
      if (slot === undefined) {
        throw this.#notRequested(uid);
      }
      const value = this.#value(unpackFor(tensor, slot.spec, slot.name), slot.spec);
      if (slot.role === "reward") {
        observed.reward = value;
      } else if (slot.role === "discount") {
        observed.discount = value;
      }
      if (slot.shown) {
        (records[slot.record] as Writable)[slot.key] = value;
      }
    }
    if (received.length !== this.#slots.length) {
      throw this.#missing(received);
    }
    return observed;
  }

  #emptyRecords(): Writable[] {
    const shapes = this.#records;
    const records = [{ ...(shapes[0] as RecordShape).template }];
    for (let i = 1; i < shapes.length; i++) {
      const { template, parent, key } = shapes[i] as RecordShape;
      const record = { ...template };
      (records[parent] as Writable)[key] = record;
      records.push(record);
    }
    return records;
  }

  #value(tensor: Tensor, spec: TensorSpec): Value {
    const value: Value = toValue(tensor, spec);
    return this.#copy && value === tensor ? copied(tensor) : value;
  }

  #slot(entry: SpecEntry, shown: boolean): Slot {
    const { uid, name, spec } = entry;
    const path = name.split(".");
    const key = path.pop() as string;
    let record = 0;
    if (shown) {
      for (const nesting of path) {
        record = this.#nested(record, nesting);
      }
      define((this.#records[record] as RecordShape).template, key);
    }
    const role = name === "reward" || name === "discount" ? name : undefined;
    return { uid, name, spec, role, shown, record, key };
  }

  #nested(parent: number, key: string): number {
    const found = this.#records.findIndex(
      (record, index) => index > 0 && record.parent === parent && record.key === key,
    );
    if (found !== -1) {
      return found;
    }
    define((this.#records[parent] as RecordShape).template, key);
    return this.#records.push({ template: {}, parent, key }) - 1;
  }

  #notRequested(uid: Uid): TensorError {
    return new TensorError({
      reason: "name",
      expected: `the requested observations, with the UIDs ${this.uids.join(", ") || "none"}`,
      received: `an observation with UID ${uid}`,
      remedy: "the server must return only requested observations",
    });
  }

  #missing(received: readonly UidTensor[]): TensorError {
    const present = new Set(received.map(({ uid }) => uid));
    const absent = this.#slots.find((slot) => !present.has(slot.uid));
    return new TensorError({
      reason: "name",
      name: absent?.name,
      expected: `all ${this.#slots.length} requested observations`,
      received: `${received.length}${absent === undefined ? "" : `, without "${absent.name}"`}`,
      remedy: "the server must return every requested observation",
    });
  }
}

/**
 * Defines an own property even if every object has an accessor of that name, such as `__proto__`.
 */
function define(template: Writable, key: string): void {
  Object.defineProperty(template, key, {
    value: undefined,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}
