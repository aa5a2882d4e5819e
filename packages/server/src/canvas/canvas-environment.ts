// SPDX-License-Identifier: Apache-2.0
/// <reference lib="dom" />
import { type FlatSpecs, type Tensor, t } from "@dm-env-rpc/tensor-codec";
import { realtime } from "../clocks/realtime.ts";
import type { SequenceState } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import type { Controls } from "../definition/controls.ts";
import { property } from "../definition/property.ts";
import { defineWorld, type WorldDefinition } from "../definition/world.ts";
import { Keyboard } from "./keyboard.ts";
import { pixelReader } from "./pixels.ts";
import { Pointer } from "./pointer.ts";

/** Options of `canvasEnvironment`. */
export interface CanvasOptions {
  /** The canvas that the game draws on. A WebGL context needs `preserveDrawingBuffer: true`. */
  readonly canvas: HTMLCanvasElement;
  /** Name of the world's kind. Default `canvas`. */
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  /** The author's version of the game, for clients to record. */
  readonly version?: string | undefined;
  /** Width of the observed pixels. Default: that of the canvas. */
  readonly width?: number | undefined;
  /** Height of the observed pixels. Default: that of the canvas. */
  readonly height?: number | undefined;
  /** Keys that agents may hold down, by `KeyboardEvent.key`: `ArrowLeft`, `w`, or a space. Default: none. */
  readonly keys?: readonly string[] | undefined;
  /** Gives agents the pointer on the canvas, and its main button. Default false. */
  readonly pointer?: boolean | undefined;
  /** Number of observations and rewards per second. Default 60. */
  readonly fps?: number | undefined;
  /** Returns the reward since its last call. Called once a tick. */
  reward(): number;
  /** Returns true, or `terminated`, once the game is over; `interrupted` if it was cut short. Called once a tick. */
  done(): boolean | SequenceState;
  /** Restarts the game. */
  reset(): Awaitable<void>;
}

/**
 * Creates a kind of world from a game that runs in this page and draws on a canvas, for one agent,
 * in real time.
 *
 * The observation `pixels` is uint8 [height, width, 3]. The action `keys` is uint8 with an element
 * for each of the `keys`: 1 while it is down. With `pointer`, the action `pointer` is float32 [2],
 * the position as a share of the canvas's width and height, and `button` is 1 while the main button
 * is down. The game receives them as events of the canvas that bubble to the document and the
 * window; keys and the button are released when a sequence ends and when the agent leaves. The
 * property `visible` is false while the tab is hidden: browsers then slow its timers down to one
 * tick a second and stop its animation frames.
 *
 * @throws RangeError if a size, the rate or a key is malformed.
 *
 * @example
 * ```ts
 * const server = createEnvironmentServer({
 *   worlds: [canvasEnvironment({
 *     canvas, width: 84, height: 84, keys: ["ArrowLeft", "ArrowRight"],
 *     reward: () => game.takePoints(), done: () => game.isOver, reset: () => game.restart(),
 *   })],
 *   singleWorld: true,
 *   premade: [{}],
 * });
 * ```
 */
export function canvasEnvironment(options: CanvasOptions): WorldDefinition {
  const { canvas, keys = [], pointer: hasPointer = false, fps = 60 } = options;
  const { width = canvas.width, height = canvas.height } = options;
  checkSize("width", width);
  checkSize("height", height);
  checkKeys(keys);
  const actions: FlatSpecs = {
    ...(keys.length > 0 ? { keys: t.uint8([keys.length], { min: 0, max: 1 }) } : {}),
    ...(hasPointer
      ? { pointer: t.float32([2], { min: 0, max: 1 }), button: t.uint8({ min: 0, max: 1 }) }
      : {}),
  };
  const { name = "canvas", description, version } = options;
  return defineWorld({
    name,
    description,
    version,
    actions,
    observations: { pixels: t.uint8([height, width, 3]), reward: t.float64() },
    clock: realtime({ ticksPerSecond: fps }),
    agents: { max: 1 },
    controls: keys.length > 0 ? controlsOf(keys) : undefined,
    create() {
      const keyboard = new Keyboard(canvas, keys);
      const pointer = new Pointer(canvas);
      const pixels = pixelReader(canvas, width, height);
      let reward = 0;
      let state: SequenceState = "running";
      const release = (): void => {
        keyboard.release();
        pointer.release();
      };
      return {
        start() {
          release();
          reward = 0;
          state = "running";
          return options.reset();
        },
        step(all) {
          for (const action of all.values()) {
            const { keys: held, pointer: position, button } = action;
            if (isTensor(held) && held.dtype === "uint8") {
              keyboard.hold(held.data);
            }
            if (isTensor(position) && position.dtype === "float32") {
              const [x = 0, y = 0] = position.data;
              pointer.move(x, y);
            }
            if (button !== undefined) {
              pointer.press(button === 1);
            }
          }
          reward = options.reward();
          state = stateOf(options.done());
          if (state !== "running") {
            release();
          }
        },
        status: () => state,
        leave: release,
        exit: release,
        destroy: release,
        observe: { pixels, reward: () => reward },
        picture: pixels,
        properties: {
          visible: property(t.bool(), {
            description: "False while the tab is hidden; the world then runs slowly.",
            read: () => document.visibilityState === "visible",
          }),
        },
      };
    },
  });
}

function stateOf(done: boolean | SequenceState): SequenceState {
  if (typeof done === "string") {
    return done;
  }
  return done ? "terminated" : "running";
}

function isTensor(value: unknown): value is Tensor {
  return typeof value === "object" && value !== null && "dtype" in value;
}

/**
 * Returns the controls for people: one key at a time, and all keys released while no key is down.
 */
function controlsOf(keys: readonly string[]): Controls {
  const held = (down: string): readonly number[] => keys.map((key) => (key === down ? 1 : 0));
  const controls = keys.map((key) => [
    key,
    { label: key === " " ? "Space" : key, actions: { keys: held(key) } },
  ]);
  return Object.fromEntries([...controls, ["", { label: "No key", actions: { keys: held("") } }]]);
}

function checkSize(name: string, pixels: number): void {
  if (!Number.isInteger(pixels) || pixels < 1) {
    throw new RangeError(
      `${name} malformed: expected a whole number of pixels of at least 1, received ${pixels}; give the option ${name}`,
    );
  }
}

function checkKeys(keys: readonly string[]): void {
  for (const [index, key] of keys.entries()) {
    if (key === "" || keys.indexOf(key) !== index) {
      throw new RangeError(
        `keys malformed: expected names of keys, each once, received ${JSON.stringify(key)}${key === "" ? "" : " twice"}; use the values of KeyboardEvent.key`,
      );
    }
  }
}
