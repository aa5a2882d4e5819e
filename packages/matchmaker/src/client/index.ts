// SPDX-License-Identifier: Apache-2.0
/** Matchmaking for agents: finds a match and joins its world. */
export type { CallersOptions } from "../calls/callers.ts";
export { type JoinMatchOptions, joinMatch, pageOf } from "./join-match.ts";
export {
  type FindOptions,
  type MatchmakerClient,
  type MatchmakerClientOptions,
  matchmakerClient,
  type TicketAssignment,
  type TicketInit,
  type TicketUpdate,
} from "./matchmaker-client.ts";
