// SPDX-License-Identifier: Apache-2.0
import { dtypes, packFor, TensorError } from "@dm-env-rpc/tensor-codec";
import type { SpecEntry, SpecTable } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";

/** Integer actions below this value are cached in packed form; most discrete actions have fewer values than this. */
const maxCached = 64;

/** An action with its cache of packed values, so that each small integer is packed only once. */
interface Action extends SpecEntry {
  readonly cache: (UidTensor | undefined)[] | undefined;
}

/** Packs actions by name for the specs of an agent. */
export class ActionWriter {
  readonly #actions: ReadonlyMap<string, Action>;
  /** Names that only group others: every proper prefix of a dotted name. */
  readonly #nestings = new Set<string>();

  constructor(table: SpecTable) {
    this.#actions = new Map(table.entries.map((entry) => [entry.name, actionOf(entry)]));
    for (const { name } of table.entries) {
      for (let dot = name.indexOf("."); dot !== -1; dot = name.indexOf(".", dot + 1)) {
        this.#nestings.add(name.slice(0, dot));
      }
    }
  }

  /** @throws TensorError if a name is unknown or a value does not fit its spec. */
  write(action: object): UidTensor[] {
    const packed: UidTensor[] = [];
    this.#write(action as Readonly<Record<string, unknown>>, "", packed);
    return packed;
  }

  #write(action: Readonly<Record<string, unknown>>, prefix: string, packed: UidTensor[]): void {
    for (const key in action) {
      const value = action[key];
      if (value === undefined) {
        continue;
      }
      const name = prefix === "" ? key : `${prefix}.${key}`;
      const entry = this.#actions.get(name);
      if (entry !== undefined) {
        packed.push(pack(entry, value));
      } else if (this.#nestings.has(name) && isRecord(value)) {
        this.#write(value, name, packed);
      } else {
        throw this.#unfit(name, value);
      }
    }
  }

  #unfit(name: string, value: unknown): TensorError {
    if (this.#nestings.has(name)) {
      return new TensorError({
        reason: "value",
        name,
        expected: `a record of the actions in "${name}"`,
        received: Array.isArray(value) ? "an array" : typeof value,
      });
    }
    const names = Array.from(this.#actions.keys(), (known) => `"${known}"`).join(", ");
    return new TensorError({
      reason: "name",
      name,
      expected:
        names === ""
          ? "an empty action, because the world has no actions"
          : `one of the actions ${names}`,
      received: `"${name}"`,
    });
  }
}

function actionOf(entry: SpecEntry): Action {
  const { dtype, shape } = entry.spec;
  const isInteger = shape.length === 0 && dtypes[dtype].kind === "int";
  return { ...entry, cache: isInteger ? [] : undefined };
}

function pack({ uid, name, spec, cache }: Action, value: unknown): UidTensor {
  if (cache === undefined || typeof value !== "number" || !(value >= 0 && value < maxCached)) {
    return { uid, tensor: packFor(value, spec, name) };
  }
  const known = cache[value];
  if (known !== undefined) {
    return known;
  }
  const packed = { uid, tensor: packFor(value, spec, name) };
  cache[value] = packed;
  return packed;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !ArrayBuffer.isView(value)
  );
}
