// SPDX-License-Identifier: Apache-2.0
/** A matchmaker for dm_env_rpc: groups tickets into matches, and creates, resets and destroys their worlds. */

export { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
export type { Evaluate, Proposal } from "./director/context.ts";
export type { AllocatableServer, ServerAllocator } from "./fleet/allocator.ts";
export {
  type NetworkServersOptions,
  networkServers,
  type ServerTarget,
  type WorldServers,
} from "./fleet/world-servers.ts";
export { byCount } from "./functions/by-count.ts";
export type {
  MatchContext,
  MatchFunction,
  MatchProposal,
  WaitingTicket,
} from "./functions/match-function.ts";
export type {
  CustomMatchContext,
  CustomMatchFunction,
  CustomProposals,
  MatchFunctions,
} from "./functions/profile-function.ts";
export { type SkillWindowOptions, skillWindow } from "./functions/skill-window.ts";
export { type TeamSize, teams } from "./functions/teams.ts";
export { type WorkerFunction, workerFunction } from "./functions/worker/worker-function.ts";
export {
  createMatchmaker,
  type Matchmaker,
  type MatchmakerCounts,
  type MatchmakerOptions,
} from "./matchmaker.ts";
export type { MatchmakerEvent } from "./model/events.ts";
export type {
  Kind,
  Labels,
  MatchData,
  MatchDatum,
  Records,
  SearchFields,
  TicketExtension,
  TicketState,
} from "./model/model.ts";
export { defaultSettings, type MatchmakerSettings } from "./model/settings.ts";
export {
  type MatchmakerServer,
  type ServeMatchmakerOptions,
  serveMatchmaker,
} from "./serve-matchmaker.ts";
export type { AuthorizeCall, Caller, CallerRole } from "./services/authorize.ts";
export { type MemoryStoreOptions, memoryStore } from "./store/memory-store.ts";
export {
  type Change,
  type Changes,
  type CommitOptions,
  type CommitResult,
  type Entry,
  isStoreError,
  type Lease,
  type Position,
  type RecordKey,
  type Store,
  StoreError,
  type StoreErrorReason,
} from "./store/store.ts";
export { generateSigningKey, type SigningKey, signingKeyFromPem } from "./tokens/keys.ts";
