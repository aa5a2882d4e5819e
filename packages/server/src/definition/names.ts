// SPDX-License-Identifier: Apache-2.0

/**
 * `T` without properties beyond `Known`: for any other property, the compiler's error contains
 * `What`. A private member of a class does not count as a property.
 */
export type OnlyNames<T, Known extends PropertyKey, What extends string> = T & {
  readonly [K in Exclude<keyof T, Known | symbol>]: `"${K}" is not a hook of ${What}`;
};

/**
 * Refuses `T` if the result of its method `step` has a property beyond `Known`: the type of `step` is
 * then an error text with the property's name and `What`, which no method fits.
 */
export type OnlyResultNames<T, Known extends PropertyKey, What extends string> =
  UnreadName<T, Known> extends infer Unread extends string
    ? [Unread] extends [never]
      ? unknown
      : { readonly step: `"${Unread}" is not a property of ${What}` }
    : unknown;

/** Names beyond `Known` of the properties in the awaited result of the method `step`. */
type UnreadName<T, Known extends PropertyKey> = T extends { step(...given: never): infer R }
  ? Exclude<NameIn<Awaited<R>>, Known | symbol>
  : never;

type NameIn<T> = T extends unknown ? keyof T : never;

/** Returns the names of a type; the compiler checks that they are complete. */
export function namesOf<T>(names: Readonly<Record<keyof T, true>>): readonly string[] {
  return Object.keys(names);
}

/**
 * Returns the value if all its names are known.
 *
 * @throws Error naming an unknown name.
 */
export function known<T extends object>(value: T, names: readonly string[], what: string): T {
  const wrong = unknownName(value, names, what);
  if (wrong !== undefined) {
    throw new Error(wrong);
  }
  return value;
}

/**
 * Describes an unknown property, which an author most likely misspelled.
 *
 * A plain object may have only the known names. An instance of a class may have methods of its own,
 * so only a method whose name is one typing error away from that of a missing hook is unknown.
 *
 * @param what Owner of the names, as in "a world".
 * @returns Undefined if all properties are known.
 */
export function unknownName(
  value: object,
  known: readonly string[],
  what: string,
): string | undefined {
  if (!isPlain(value)) {
    return misspelledMethod(value, known, what);
  }
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown === undefined) {
    return undefined;
  }
  const meant = nearest(unknown, known);
  const remedy =
    meant === undefined ? "remove it, or keep the value in a variable" : `did you mean "${meant}"`;
  return `unknown name "${unknown}": expected ${what} with only the names ${known.join(", ")}; ${remedy}`;
}

function misspelledMethod(
  value: object,
  known: readonly string[],
  what: string,
): string | undefined {
  const methods = methodsOf(value);
  for (const name of methods) {
    if (known.includes(name)) {
      continue;
    }
    const meant = known.find((hook) => !methods.has(hook) && edits(name, hook) === 1);
    if (meant === undefined) {
      continue;
    }
    return `unknown name "${name}": expected ${what}, received a class with a method whose name is close to that of a hook; did you mean "${meant}"`;
  }
  return undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Returns the names of an object's functions, including inherited ones; calls no getter. */
function methodsOf(value: object): ReadonlySet<string> {
  const names = new Set<string>();
  for (
    let owner: object | null = value;
    owner !== null && owner !== Object.prototype;
    owner = Object.getPrototypeOf(owner) as object | null
  ) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (typeof value === "function" && name !== "constructor") {
        names.add(name);
      }
    }
  }
  return names;
}

/** Returns the known name that is most like `name`; undefined if all differ too much. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const plain = bare(name);
  const ranked = known
    .map((candidate) => ({ candidate, away: edits(plain, bare(candidate)) }))
    .sort((a, b) => a.away - b.away);
  const [best] = ranked;
  return best !== undefined && best.away <= plain.length / 2 ? best.candidate : undefined;
}

/** Normalizes a name: `onStart`, `on_start` and `start` are equal. */
function bare(name: string): string {
  return name
    .replace(/^on(?=[A-Z_])/, "")
    .replaceAll("_", "")
    .toLowerCase();
}

/**
 * Returns the edit distance of two names: letters added, removed, replaced, or swapped with the
 * next letter.
 */
function edits(from: string, to: string): number {
  const row = (i: number) => Array.from({ length: to.length + 1 }, (_, j) => (i === 0 ? j : i));
  const rows = Array.from({ length: from.length + 1 }, (_, i) => row(i));
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0;
  for (let i = 1; i <= from.length; i++) {
    for (let j = 1; j <= to.length; j++) {
      const replaced = at(i - 1, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwap ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY;
      (rows[i] as number[])[j] = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped);
    }
  }
  return at(from.length, to.length);
}
