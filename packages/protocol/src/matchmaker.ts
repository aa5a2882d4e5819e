// SPDX-License-Identifier: Apache-2.0
/** Matchmaking: tickets, profiles, environment servers, and the services for each side. */
export * from "./gen/matchmaker/v1/matchmaker_pb.ts";
