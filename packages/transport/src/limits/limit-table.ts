// SPDX-License-Identifier: Apache-2.0
import { maxTimeoutMs } from "../internal/time/time-source.ts";

/**
 * A limit in a table of limits. A table is a class with a field for each limit. The docstring of a field describes what
 * the limit bounds. The type of the limits (`LimitsOf`), their defaults and the validation (`readLimits`) derive from
 * the table.
 */
export interface Limit {
  readonly default: number;
  /** `ms` accepts any duration of a timer; `bytes` and `count` accept integers and Infinity. */
  readonly unit: "ms" | "bytes" | "count";
  /** Meaning of 0. If undefined, the limit is at least 1. */
  readonly zero?: "never" | "no limit" | undefined;
  /** Largest valid value. Default: the largest that `unit` accepts. */
  readonly most?: number | undefined;
}

/** Values of the limits in a table, with the docstrings of its fields. */
export type LimitsOf<Table> = { readonly [Name in keyof Table]: number };

const units = {
  ms: { is: "a number of milliseconds", most: maxTimeoutMs, isWhole: false },
  bytes: { is: "a whole number of bytes", most: Number.POSITIVE_INFINITY, isWhole: true },
  count: { is: "a whole number", most: Number.POSITIVE_INFINITY, isWhole: true },
};

/**
 * Returns the given limits, and the table's defaults of all other limits.
 *
 * @param what Word for a limit in errors, such as `setting`.
 * @throws RangeError if a limit is unknown or out of range.
 */
export function readLimits<Name extends string>(
  table: Readonly<Record<Name, Limit>>,
  given?: Readonly<Partial<Record<Name, number>>>,
  what = "limit",
): Readonly<Record<Name, number>> {
  for (const name of Object.keys(given ?? {})) {
    if (Object.hasOwn(table, name)) {
      continue;
    }
    throw new RangeError(
      `unknown ${what} "${name}": expected one of ${Object.keys(table).join(", ")}`,
    );
  }
  const limits = Object.entries<Limit>(table).map(([name, limit]) => {
    const value = given?.[name as Name];
    if (value !== undefined) {
      check(limit, value, `${what} ${name}`);
    }
    return [name, value ?? limit.default] as const;
  });
  return Object.fromEntries(limits) as Record<Name, number>;
}

/** @throws RangeError with the range of the limit. */
function check(limit: Limit, value: number, name: string): void {
  const unit = units[limit.unit];
  const least = limit.zero === undefined ? 1 : 0;
  const most = limit.most ?? unit.most;
  const isWhole = Number.isInteger(value) || value === Number.POSITIVE_INFINITY;
  if (value >= least && value <= most && (isWhole || !unit.isWhole)) {
    return;
  }
  const range =
    most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
  const hint = limit.zero !== undefined && value > most ? `; 0 means ${limit.zero}` : "";
  throw new RangeError(`${name}: expected ${unit.is} ${range}, received ${value}${hint}`);
}
