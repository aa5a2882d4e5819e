// SPDX-License-Identifier: Apache-2.0
/** Creates a kind of world from a game that draws on a canvas, in the game's page. */
export { type CanvasOptions, canvasEnvironment } from "./canvas-environment.ts";
