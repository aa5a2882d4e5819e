// SPDX-License-Identifier: Apache-2.0
import { drawAnsiFrame, drawPlainFrame, type FrameSource } from "@dm-env-rpc/gridworld-server";

/** What a screen writes to, such as `process.stdout`. */
export interface Output {
  readonly isTTY?: boolean;
  /** Only terminals have it. */
  hasColors?(count: number): boolean;
  write(text: string): boolean;
}

/** Where frames are shown. */
export interface Screen {
  /** Shows a frame with lines below it, unless the last one was shown too short a time ago. */
  show(frame: FrameSource, ...lines: string[]): void;
}

const terminalEveryMs = 100;
const plainEveryMs = 4_000;

/** A screen that redraws in place on a terminal, in colours where it has them, and prints a frame now and then elsewhere. */
export function createScreen(output: Output): Screen {
  const live = output.isTTY === true;
  const draw = live && output.hasColors?.(2 ** 24) ? drawAnsiFrame : drawPlainFrame;
  let shownAt = Number.NEGATIVE_INFINITY;
  let height = 0;
  return {
    show(frame, ...lines) {
      const now = performance.now();
      if (now - shownAt < (live ? terminalEveryMs : plainEveryMs)) return;
      shownAt = now;
      const text = `${draw(frame)}${lines.join("\n")}\n`;
      output.write(live && height > 0 ? `\u001b[${height}F\u001b[J${text}` : text);
      height = text.split("\n").length - 1;
    },
  };
}
