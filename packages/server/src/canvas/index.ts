// SPDX-License-Identifier: Apache-2.0
/** Makes a world of a game that draws on a canvas, in its page. */
export { type CanvasOptions, canvasEnvironment } from "./canvas-environment.ts";
