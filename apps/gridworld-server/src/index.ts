// SPDX-License-Identifier: Apache-2.0
/** The sample world, to serve or to type an agent by, and how to draw its board in a terminal. */
export {
  agentFields,
  ansiLegend,
  drawAnsiFrame,
  drawPlainFrame,
  type FramedAgent,
  type FrameSource,
  foodFields,
  foragingActions,
  plainLegend,
  tileSide,
} from "./foraging/index.ts";
export { gridworld } from "./world.ts";
