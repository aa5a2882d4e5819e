// SPDX-License-Identifier: Apache-2.0

/**
 * Values of actions as a page sends them, nested like the specs; a number may represent an integer
 * of any width.
 */
export interface ControlActions {
  readonly [name: string]: number | boolean | string | readonly number[] | ControlActions;
}

/** Action of a key. */
export interface Control {
  /** Label of its button. */
  readonly label: string;
  readonly actions: ControlActions;
}

/**
 * The keys that people play a world with on its server's page, by `KeyboardEvent.key`: `ArrowUp`,
 * `w`, or a space. The actions of the empty key are sent to a world in real time while no key is
 * down.
 *
 * @example
 * ```ts
 * const controls: Controls = {
 *   ArrowLeft: { label: "Left", actions: { move: -1 } },
 *   ArrowRight: { label: "Right", actions: { move: 1 } },
 *   "": { label: "Stay", actions: { move: 0 } },
 * };
 * ```
 */
export type Controls = Readonly<Record<string, Control>>;

/** Describes what is wrong with a control; undefined if all are valid. */
export function wrongControl(controls: Controls): string | undefined {
  for (const [key, control] of Object.entries(controls)) {
    const { label, actions }: Partial<Control> = control;
    if (typeof label !== "string" || typeof actions !== "object" || !areValues(actions)) {
      return `the control of the key "${key}" is malformed: expected a label and actions of numbers, booleans or strings; fix it, or omit the controls`;
    }
  }
  return undefined;
}

function areValues(value: unknown): boolean {
  switch (typeof value) {
    case "number":
      return Number.isFinite(value);
    case "boolean":
    case "string":
      return true;
    case "object":
      return value !== null && Object.values(value).every(areValues);
    default:
      return false;
  }
}
