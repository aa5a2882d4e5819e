// SPDX-License-Identifier: Apache-2.0
export { ForagingError, type ForagingErrorReason, isForagingError } from "./errors.ts";
export { createForaging, type Foraging } from "./foraging.ts";
export {
  ansiLegend,
  drawAnsiFrame,
  drawPlainFrame,
  type FramedAgent,
  type FrameSource,
  plainLegend,
} from "./frame.ts";
export { maxLevel, maxNameLength, maxSide } from "./limits.ts";
export { agentFields, foodFields, gridChannels } from "./observations.ts";
export { PictureCache } from "./picture-cache.ts";
export type { Random } from "./random.ts";
export type { AgentKey, JoinOptions } from "./roster.ts";
export { type ForagingStatus, foragingActions } from "./rules.ts";
export {
  type ForagingSettings,
  type ForagingSettingsInput,
  resolveSettings,
} from "./settings.ts";
export { tileSide } from "./tiles.ts";
