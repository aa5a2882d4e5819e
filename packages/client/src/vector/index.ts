// SPDX-License-Identifier: Apache-2.0
/** Many environments as one. */
export type { BackoffOptions } from "@dm-env-rpc/transport/internal";

export type {
  AutoresetMode,
  DynamicStacked,
  SequenceInfo,
  Stacked,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "../environment/vector.ts";

export { type RemoteSlotOptions, remoteSlots } from "./remote-slots.ts";
export { vectorize } from "./vectorize.ts";
export type {
  BatchFactory,
  BatchSlots,
  SlotFactory,
  SlotRequest,
  Unstacked,
  UnstackedOptions,
  VectorizeOptions,
} from "./vectorize-options.ts";
