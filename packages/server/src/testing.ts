// SPDX-License-Identifier: Apache-2.0
/** Helpers for tests of a world: a time source that stands still until the test advances it. */
export { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
