// SPDX-License-Identifier: Apache-2.0
/** The sample world, to serve and to type agents, and its drawing for terminals. */
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
