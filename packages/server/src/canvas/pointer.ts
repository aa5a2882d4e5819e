// SPDX-License-Identifier: Apache-2.0
/// <reference lib="dom" />

/** The pointer of an agent on a canvas, with one button. */
export class Pointer {
  readonly #canvas: HTMLCanvasElement;
  /** Position as a share of the canvas's width and height. */
  #x = 0.5;
  #y = 0.5;
  #isDown = false;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
  }

  /** Moves to a share of the canvas's width and height. */
  move(x: number, y: number): void {
    if (x === this.#x && y === this.#y) {
      return;
    }
    this.#x = x;
    this.#y = y;
    this.#dispatch("move");
  }

  /** Presses or releases the button. */
  press(isDown: boolean): void {
    if (isDown === this.#isDown) {
      return;
    }
    this.#isDown = isDown;
    this.#dispatch(isDown ? "down" : "up");
    if (!isDown) {
      this.#canvas.dispatchEvent(new MouseEvent("click", this.#init()));
    }
  }

  /** Releases the button if it is down. */
  release(): void {
    this.press(false);
  }

  /** Dispatches the pointer event and the mouse event that a browser sends after it. */
  #dispatch(what: "move" | "down" | "up"): void {
    const init = this.#init();
    this.#canvas.dispatchEvent(
      new PointerEvent(`pointer${what}`, {
        ...init,
        pointerId: 1,
        pointerType: "mouse",
        isPrimary: true,
      }),
    );
    this.#canvas.dispatchEvent(new MouseEvent(`mouse${what}`, init));
  }

  #init(): MouseEventInit {
    const { left, top, width, height } = this.#canvas.getBoundingClientRect();
    return {
      clientX: left + this.#x * width,
      clientY: top + this.#y * height,
      button: 0,
      buttons: this.#isDown ? 1 : 0,
      bubbles: true,
      cancelable: true,
    };
  }
}
