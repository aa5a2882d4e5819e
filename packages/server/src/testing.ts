// SPDX-License-Identifier: Apache-2.0
/** Helpers for tests of a world: a clock that stands still until it is advanced. */
export { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
