// SPDX-License-Identifier: Apache-2.0
/// <reference lib="dom" />

/** Legacy `keyCode` of the named keys, which older games still read. */
const keyCodes: Readonly<Record<string, number>> = {
  Backspace: 8,
  Tab: 9,
  Enter: 13,
  Shift: 16,
  Control: 17,
  Alt: 18,
  Escape: 27,
  " ": 32,
  PageUp: 33,
  PageDown: 34,
  End: 35,
  Home: 36,
  ArrowLeft: 37,
  ArrowUp: 38,
  ArrowRight: 39,
  ArrowDown: 40,
  Delete: 46,
};

/** Physical keys whose `code` differs from their `key`. */
const codes: Readonly<Record<string, string>> = {
  " ": "Space",
  Shift: "ShiftLeft",
  Control: "ControlLeft",
  Alt: "AltLeft",
};

/**
 * Creates the event of a key, given as `KeyboardEvent.key`, as a keyboard with a US layout would
 * send it.
 */
function keyEvent(type: "keydown" | "keyup", key: string): KeyboardEvent {
  const isLetter = /^[a-z]$/i.test(key);
  const isDigit = /^\d$/.test(key);
  const upper = key.toUpperCase();
  const code = isLetter ? `Key${upper}` : isDigit ? `Digit${key}` : (codes[key] ?? key);
  const keyCode = isLetter || isDigit ? upper.charCodeAt(0) : (keyCodes[key] ?? 0);
  return new KeyboardEvent(type, {
    key,
    code,
    keyCode,
    shiftKey: isLetter && key === upper,
    bubbles: true,
    cancelable: true,
  });
}

/** Keys of a game that an agent holds down. */
export class Keyboard {
  readonly #target: EventTarget;
  readonly #keys: readonly string[];
  readonly #down = new Set<string>();

  constructor(target: EventTarget, keys: readonly string[]) {
    this.#target = target;
    this.#keys = keys;
  }

  /**
   * Presses and releases keys.
   *
   * @param held For each key, 1 if it is down.
   */
  hold(held: ArrayLike<number>): void {
    for (const [index, key] of this.#keys.entries()) {
      const isDown = held[index] === 1;
      if (isDown === this.#down.has(key)) {
        continue;
      }
      if (isDown) {
        this.#down.add(key);
      } else {
        this.#down.delete(key);
      }
      this.#target.dispatchEvent(keyEvent(isDown ? "keydown" : "keyup", key));
    }
  }

  /** Releases the keys that are down. */
  release(): void {
    this.hold([]);
  }
}
