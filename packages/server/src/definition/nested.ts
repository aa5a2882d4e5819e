// SPDX-License-Identifier: Apache-2.0

/** Sets a value in nested records; missing records are created. */
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

/** Returns the value at a path of nested records; undefined if it does not exist. */
export function valueAt(values: unknown, path: readonly string[]): unknown {
  let value = values;
  for (let i = 0; i < path.length; i++) {
    value = (value as Record<string, unknown> | undefined)?.[path[i] as string];
  }
  return value;
}
