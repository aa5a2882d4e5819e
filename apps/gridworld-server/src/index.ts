// SPDX-License-Identifier: Apache-2.0
/** The sample world, to serve or to type an agent by, and how to draw its board in a terminal. */
export {
  agentFields,
  drawAnsiFrame,
  drawPlainFrame,
  type FramedAgent,
  type FrameSource,
  foodFields,
  tileSide,
} from "./foraging/index.ts";
export { gridworld } from "./world.ts";
