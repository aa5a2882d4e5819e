// SPDX-License-Identifier: Apache-2.0
import { packFor, type SpecTable, TensorError, type UidTensor } from "@dm-env-rpc/tensor-codec";

/** Packs actions given by name for the specs of an agent. */
export class ActionWriter {
  readonly #table: SpecTable;
  /** The names that only nest: every proper prefix of a dotted name. */
  readonly #nestings = new Set<string>();

  constructor(table: SpecTable) {
    this.#table = table;
    for (const { name } of table.entries) {
      for (let dot = name.indexOf("."); dot !== -1; dot = name.indexOf(".", dot + 1))
        this.#nestings.add(name.slice(0, dot));
    }
  }

  /** @throws TensorError when a name is unknown or a value does not fit its spec. */
  write(action: object): UidTensor[] {
    const packed: UidTensor[] = [];
    this.#write(action as Readonly<Record<string, unknown>>, "", packed);
    return packed;
  }

  #write(action: Readonly<Record<string, unknown>>, prefix: string, packed: UidTensor[]): void {
    for (const key in action) {
      const value = action[key];
      if (value === undefined) continue;
      const name = prefix === "" ? key : `${prefix}.${key}`;
      const entry = this.#table.byName.get(name);
      if (entry !== undefined)
        packed.push({ uid: entry.uid, tensor: packFor(value, entry.spec, name) });
      else if (this.#nestings.has(name) && isRecord(value)) this.#write(value, name, packed);
      else throw this.#unfit(name, value);
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
    const names = this.#table.entries.map((entry) => `"${entry.name}"`).join(", ");
    return new TensorError({
      reason: "name",
      name,
      expected: names === "" ? "no action, for there are none" : `one of the actions ${names}`,
      received: `"${name}"`,
    });
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !ArrayBuffer.isView(value)
  );
}
