// SPDX-License-Identifier: Apache-2.0

/** Sets a value in nested records, which it creates if they are missing. */
export function place(
  values: Record<string, unknown>,
  path: readonly string[],
  value: unknown,
): void {
  let target = values;
  for (let i = 0; i < path.length - 1; i++) {
    const key = path[i] as string;
    target[key] ??= {};
    target = target[key] as Record<string, unknown>;
  }
  target[path[path.length - 1] as string] = value;
}

/** The value under a path of nested records; undefined if there is none. */
export function valueAt(values: unknown, path: readonly string[]): unknown {
  let value = values;
  for (let i = 0; i < path.length; i++) {
    value = (value as Record<string, unknown> | undefined)?.[path[i] as string];
  }
  return value;
}
