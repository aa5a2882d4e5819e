// SPDX-License-Identifier: Apache-2.0
import { equals } from "@bufbuild/protobuf";
import { type ActionObservationSpecs, ActionObservationSpecsSchema } from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  elementCount,
  nestValues,
  type PackedTensor,
  type Specs,
  type TensorData,
  t,
  unpackFor,
} from "@dm-env-rpc/tensor-codec";
import type { SpecEntry, SpecTable } from "@dm-env-rpc/tensor-codec/proto";
import type { StepRequest, Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { Column } from "../definition/batch/columns.ts";
import { batchedSpecs, checkSizes } from "../definition/batch/specs.ts";
import { SeatSpecs, unknownUid } from "../engine/seat-specs.ts";

/** Observations of every row in addition to those of its agent. */
const rowObservations: Specs = {
  step_type: t.uint8({ min: 0, max: 2 }),
  terminated: t.bool(),
  truncated: t.bool(),
};

/** The action that keeps rows out of a sequence. */
const beginMask = "begin_mask";

/** Actions of every row in addition to those of its agent. */
const rowActions: Specs = { [beginMask]: t.bool() };

/** An observation that a step requested. */
export interface Requested {
  readonly uid: Uid;
  readonly column: Column;
  /** The observation of one agent; undefined for an observation of rows. */
  readonly own: SpecEntry | undefined;
}

/** A parsed and validated step of all rows. */
export interface RowsStep {
  /** A request for each row. */
  readonly rows: readonly StepRequest[];
  readonly requested: readonly Requested[];
  /** True for each row that begins a sequence if it is not in one; undefined if all do. */
  readonly begins: readonly boolean[] | undefined;
}

/** The specs of a stream with several seats: the specs of one agent with a leading dimension. */
export class RowSpecs {
  readonly #size: number;
  readonly #own: SeatSpecs;
  readonly #specs: SeatSpecs;
  readonly #maxElements: number;
  readonly #columns = new Map<SpecEntry, Requested>();
  /** The last list of requested observations: most agents request the same in every step. */
  #lastEntries: readonly SpecEntry[] = [];
  #lastRequested: readonly Requested[] = [];
  #lastOwn: readonly Uid[] = [];

  /**
   * @throws DmEnvRpcError if the tensors of rows have no fixed shape, are too large, or have a
   *   reserved name.
   */
  constructor(own: SeatSpecs, size: number, maxElements: number) {
    const [actions, observations] = [nested(own.actions), nested(own.observations)];
    checkNames("action", own.actions, rowActions);
    checkNames("observation", own.observations, rowObservations);
    for (const specs of [actions, observations]) {
      checkSizes(specs, size, { maxElements, setting: "seats" });
    }
    this.#size = size;
    this.#own = own;
    this.#maxElements = maxElements;
    this.#specs = new SeatSpecs(
      batchedSpecs({ ...actions, ...rowActions }, size),
      batchedSpecs({ ...observations, ...rowObservations }, size),
      maxElements,
    );
  }

  get message(): ActionObservationSpecs {
    return this.#specs.message;
  }

  /** Returns true if an agent's specs fit its row. */
  fits(specs: SeatSpecs): boolean {
    return (
      this.#own === specs || equals(ActionObservationSpecsSchema, this.#own.message, specs.message)
    );
  }

  /** @throws DmEnvRpcError if an agent's specs do not fit its row. */
  check(specs: SeatSpecs): void {
    if (!this.fits(specs)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        'the seats of one stream need the same specs, and this world gives them different ones; join it without "seats"',
      );
    }
  }

  /**
   * Reads a step of all rows, and checks dtypes and shapes. Everything else is checked row by row.
   *
   * @param areFirst True if no row is in a sequence: the step is then the first of every row, and
   * its actions are ignored.
   * @throws DmEnvRpcError, TensorError if the step does not fit the specs.
   */
  read(request: StepRequest, areFirst: boolean): RowsStep {
    const requested = this.#readRequested(request);
    const rows = Array.from({ length: this.#size }, (): UidTensor[] => []);
    let begins: readonly boolean[] | undefined;
    for (const { uid, tensor } of areFirst ? [] : request.actions) {
      const entry = this.#specs.actions.byUid.get(uid);
      if (entry === undefined) {
        throw unknownUid("action", uid, this.#specs.actions);
      }
      const data = this.#unpack(entry, tensor);
      if (entry.name === beginMask) {
        begins = Array.from<unknown, boolean>(data, Boolean);
      } else {
        this.#split(entry, data, rows);
      }
    }
    return {
      rows: rows.map((actions) => ({ actions, requestedObservations: this.#lastOwn })),
      requested,
      begins,
    };
  }

  #unpack({ name, spec }: SpecEntry, packed: UidTensor["tensor"]): TensorData {
    const { dtype, shape } = spec;
    return unpackFor(packed, { dtype, shape }, name, { maxElements: this.#maxElements }).data;
  }

  /** Clears the observations of a row. */
  clear(row: number): void {
    for (const { column } of this.#columns.values()) {
      column.clear(row);
    }
  }

  #split({ name, spec }: SpecEntry, data: TensorData, rows: UidTensor[][]): void {
    const { dtype, shape } = spec;
    const { uid } = this.#own.actions.byName.get(name) as SpecEntry;
    const own = shape.slice(1);
    const width = elementCount(own);
    for (const [row, actions] of rows.entries()) {
      const elements = data.slice(row * width, (row + 1) * width);
      actions.push({ uid, tensor: { dtype, shape: own, data: elements } as PackedTensor });
    }
  }

  #readRequested(request: StepRequest): readonly Requested[] {
    const entries = this.#specs.readRequested(request);
    if (entries !== this.#lastEntries) {
      this.#lastEntries = entries;
      this.#lastRequested = entries.map((entry) => this.#requested(entry));
      this.#lastOwn = this.#lastRequested.flatMap(({ own }) => own?.uid ?? []);
    }
    return this.#lastRequested;
  }

  #requested(entry: SpecEntry): Requested {
    let requested = this.#columns.get(entry);
    if (requested === undefined) {
      const { uid, name, spec } = entry;
      const { dtype, shape } = spec;
      const column = new Column(name, { dtype, shape: shape.slice(1) }, this.#size, "off");
      requested = { uid, column, own: this.#own.observations.byName.get(name) };
      this.#columns.set(entry, requested);
    }
    return requested;
  }
}

/** @throws DmEnvRpcError if an agent's tensor has a name that rows reserve. */
function checkNames(kind: "action" | "observation", { entries }: SpecTable, ofRows: Specs): void {
  const taken = entries.find(({ name }) => Object.hasOwn(ofRows, name.split(".")[0] as string));
  if (taken !== undefined) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `this world cannot be joined with several seats: rows reserve the name of its ${kind} "${taken.name}"; join without "seats", or have the name changed`,
    );
  }
}

function nested({ entries }: SpecTable): Specs {
  return nestValues(entries.map(({ name, spec }) => [name, spec])) as Specs;
}
