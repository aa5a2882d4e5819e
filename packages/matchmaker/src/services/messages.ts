// SPDX-License-Identifier: Apache-2.0
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type Backfill,
  BackfillSchema,
  type Match,
  MatchSchema,
  MatchState,
  type Server,
  ServerSchema,
  ServerState,
  type Ticket,
  TicketSchema,
  TicketState,
} from "@dm-env-rpc/protocol/matchmaker";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import type * as model from "../model/model.ts";
import type { Replica } from "../replica/replica.ts";
import type { QueuePosition } from "./positions.ts";

/** The wire values of ticket states. */
export const ticketStates: Readonly<Record<model.TicketState, TicketState>> = {
  waiting: TicketState.WAITING,
  matched: TicketState.MATCHED,
  assigned: TicketState.ASSIGNED,
  joined: TicketState.JOINED,
  completed: TicketState.COMPLETED,
  cancelled: TicketState.CANCELLED,
  failed: TicketState.FAILED,
};

const serverStates: Readonly<Record<model.ServerRecord["state"], ServerState>> = {
  serving: ServerState.SERVING,
  draining: ServerState.DRAINING,
  lost: ServerState.LOST,
  gone: ServerState.LOST,
};

/** Converts a ticket to its message, with its place among the waiting tickets. */
export function ticketMessage(ticket: model.Ticket, place?: QueuePosition): Ticket {
  const { assignment, reason } = ticket;
  const message: MessageInitShape<typeof TicketSchema> = {
    id: ticket.id,
    searchFields: {
      doubles: { ...ticket.search.doubles },
      strings: { ...ticket.search.strings },
      tags: [...ticket.search.tags],
    },
    extensions: Object.fromEntries(
      Object.entries(ticket.extensions).map(([name, { typeUrl, value }]) => [
        name,
        { typeUrl, value: base64Decode(value) },
      ]),
    ),
    profile: ticket.profile,
    state: ticketStates[ticket.state],
    createTime: time(ticket.createdMs),
    matchId: ticket.matchId ?? "",
    partySize: ticket.partySize ?? 1,
    latenciesMs: { ...ticket.latenciesMs },
    priority: ticket.priority ?? 0,
  };
  if (assignment !== undefined) {
    const { expiresMs, data, joinTokens = [assignment.joinToken], ...rest } = assignment;
    message.assignment = {
      ...rest,
      joinTokens: [...joinTokens],
      data: jsonOf(data),
      expireTime: time(expiresMs),
    };
  }
  if (reason !== undefined) {
    message.error = { code: statusCodes[reason.code], message: reason.message };
  }
  if (place !== undefined) {
    message.position = place.position;
    if (place.estimatedWaitMs !== undefined) {
      message.estimatedWait = duration(place.estimatedWaitMs);
    }
  }
  return create(TicketSchema, message);
}

/** Converts a match to its message. */
export function matchMessage(replica: Replica, match: model.Match): Match {
  return create(MatchSchema, {
    id: match.id,
    profile: match.profile,
    state: match.state === "live" ? MatchState.LIVE : MatchState.PLACED,
    teams: match.teams.map(({ name, tickets }) => ({ name, ticketIds: [...tickets] })),
    serverId: match.serverId,
    worldName: replica.get("world", match.worldId)?.value.name ?? "",
    createTime: time(match.createdMs),
    data: jsonOf(match.data ?? {}),
  });
}

/** Converts match data to the JSON of a Struct. */
function jsonOf(data: model.MatchData): JsonObject {
  return JSON.parse(JSON.stringify(data)) as JsonObject;
}

/** Converts the open seats of a match to their message. */
export function backfillMessage({ id, profile, vacancies }: model.Match): Backfill {
  return create(BackfillSchema, { id, profile, openSeats: [...vacancies] });
}

/** Converts a server to its message, with its last report. */
export function serverMessage(
  replica: Replica,
  server: model.ServerRecord,
  load: { readonly worlds: number; readonly seats: number },
): Server {
  const { worlds = [], load: reportedLoad } = replica.get("report", server.id)?.value ?? {};
  return create(ServerSchema, {
    id: server.id,
    address: server.address,
    capacity: { maxWorlds: server.maxWorlds, maxAgents: server.maxAgents },
    worldTypes: [...server.worldTypes],
    region: server.region ?? "",
    labels: { ...server.labels },
    joinTokens: server.joinTokens,
    state: serverStates[server.state],
    worlds: worlds.map(({ tickets, left, ...world }) => ({
      ...world,
      ticketIds: [...tickets],
      leftTicketIds: [...left],
    })),
    placedWorlds: load.worlds,
    placedSeats: load.seats,
    ...(reportedLoad === undefined ? {} : { load: reportedLoad }),
  });
}

/** Converts milliseconds since 1970 to a Timestamp. */
export function time(ms: number): ReturnType<typeof timestampFromMs> {
  return timestampFromMs(Math.round(ms));
}

/** Converts milliseconds to a Duration. */
export function duration(ms: number): ReturnType<typeof durationFromMs> {
  return durationFromMs(Math.round(ms));
}
