// SPDX-License-Identifier: Apache-2.0
/**
 * Matchmaking for environment servers: registers a server, reports its worlds and admits assigned
 * agents.
 */
export type { CallersOptions } from "../calls/callers.ts";
export type { JoinClaims } from "../tokens/verifier.ts";
export {
  type Registration,
  type RegistrationEvent,
  type RegistrationOptions,
  register,
  type ServedWorld,
} from "./register.ts";
export type { Seat, Seats } from "./seats.ts";
export {
  type RegisteredServer,
  type RegistrableServer,
  type ServeHooks,
  type ServeRegisteredOptions,
  serveRegistered,
} from "./serve-registered.ts";
