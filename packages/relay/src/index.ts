// SPDX-License-Identifier: Apache-2.0
/** A relay: programs dial out to it, and agents dial in. */
export type { RelayEvent } from "./events.ts";
export type { ProgramGrant } from "./grants.ts";
export { defaultRelayLimits, type RelayLimits } from "./limits.ts";
export type { PortBounds } from "./port-range.ts";
export { type Relay, type RelayedProgram, type RelayOptions, serveRelay } from "./serve-relay.ts";
