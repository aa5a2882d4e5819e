// SPDX-License-Identifier: Apache-2.0
/** Many environments as one. */
export type { BackoffOptions } from "../stream/backoff.ts";
export { type RemoteSlotOptions, remoteSlots } from "./remote-slots.ts";
export type {
  AutoresetMode,
  DynamicStacked,
  SequenceInfo,
  SlotFactory,
  SlotRequest,
  Stacked,
  Unstacked,
  UnstackedOptions,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorizeOptions,
  VectorResetOptions,
} from "./vector-environment.ts";
export { vectorize } from "./vectorize.ts";
