// SPDX-License-Identifier: Apache-2.0
import type { ActionObservationSpecs } from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  flattenSpecs,
  type Specs,
  toValue,
  unpackFor,
} from "@dm-env-rpc/tensor-codec";
import {
  packSpecs,
  type SpecEntry,
  type SpecTable,
  specTable,
} from "@dm-env-rpc/tensor-codec/proto";
import type { StepRequest, Uid } from "@dm-env-rpc/tensor-codec/wire";
import type { ActionValues } from "../definition/clock.ts";
import { place } from "../definition/nested.ts";

/** The actions of a first step: empty, because a first step's actions are ignored. */
export const noActions: ActionValues = Object.freeze({});

/** An action and the path of its value. */
interface Action extends SpecEntry {
  readonly path: readonly string[];
}

/** The specs of an agent, prepared to read its steps. */
export class SeatSpecs {
  readonly actions: SpecTable;
  readonly observations: SpecTable;
  readonly #actions: ReadonlyMap<Uid, Action>;
  readonly #required: readonly SpecEntry[];
  readonly #limits: { readonly maxElements: number };
  #message: ActionObservationSpecs | undefined;
  /** The last list of requested UIDs and its entries: most agents request the same in every step. */
  #lastRequested: readonly Uid[] = [];
  #lastEntries: readonly SpecEntry[] = [];

  /** @param maxElements Maximum number of elements of an action, before and after broadcasting. */
  constructor(actions: Specs, observations: Specs, maxElements: number) {
    this.#limits = { maxElements };
    this.actions = specTable(flattenSpecs(actions));
    this.observations = specTable(flattenSpecs(observations));
    this.#actions = new Map(
      this.actions.entries.map((entry) => [entry.uid, { ...entry, path: entry.name.split(".") }]),
    );
    this.#required = this.actions.entries.filter(({ spec }) => "required" in spec);
  }

  /** The specs as a message. */
  get message(): ActionObservationSpecs {
    this.#message ??= packSpecs({ actions: this.actions, observations: this.observations });
    return this.#message;
  }

  /**
   * Reads and checks the actions of a step.
   *
   * @throws DmEnvRpcError INVALID_ARGUMENT for an unknown UID or a missing action.
   * @throws TensorError for an action that does not fit its spec.
   */
  readActions(request: StepRequest): ActionValues {
    const { actions } = request;
    const values: Record<string, unknown> = {};
    for (const { uid, tensor } of actions) {
      const action = this.#actions.get(uid);
      if (action === undefined) {
        throw unknownUid("action", uid, this.actions);
      }
      const { spec, name, path } = action;
      place(values, path, toValue(unpackFor(tensor, spec, name, this.#limits), spec));
    }
    for (const { name, uid } of this.#required) {
      if (!actions.some((action) => action.uid === uid)) {
        throw new DmEnvRpcError(
          "INVALID_ARGUMENT",
          `the action "${name}" (UID ${uid}) is missing: expected it in every step, received a step without it`,
        );
      }
    }
    return values;
  }

  /**
   * Returns the requested observations of a step, without duplicates.
   *
   * @throws DmEnvRpcError INVALID_ARGUMENT naming an unknown UID.
   */
  readRequested(request: StepRequest): readonly SpecEntry[] {
    const requested = request.requestedObservations;
    // The codec gives the same list for the same bytes, so most steps compare no elements.
    if (requested !== this.#lastRequested) {
      if (!sameUids(requested, this.#lastRequested)) {
        this.#lastEntries = this.#entriesOf(requested);
      }
      this.#lastRequested = requested;
    }
    return this.#lastEntries;
  }

  #entriesOf(requested: readonly Uid[]): readonly SpecEntry[] {
    const entries = new Set<SpecEntry>();
    for (const uid of requested) {
      const entry = this.observations.byUid.get(uid);
      if (entry === undefined) {
        throw unknownUid("observation", uid, this.observations);
      }
      entries.add(entry);
    }
    return [...entries];
  }
}

function sameUids(a: readonly Uid[], b: readonly Uid[]): boolean {
  return a.length === b.length && a.every((uid, i) => uid === b[i]);
}

/** Creates the error for a UID that the specs do not contain. */
export function unknownUid(what: string, uid: Uid, table: SpecTable): DmEnvRpcError {
  const known = table.entries
    .slice(0, 32)
    .map((entry) => `${entry.uid} (${entry.name})`)
    .join(", ");
  const more = table.entries.length > 32 ? ` and ${table.entries.length - 32} more` : "";
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `unknown ${what} UID ${uid}: expected one of ${known || "none"}${more}`,
  );
}
