// SPDX-License-Identifier: Apache-2.0
/** What the tests of a world need: a clock that stands still until it is advanced. */
export { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
