// SPDX-License-Identifier: Apache-2.0
import { isDeepStrictEqual } from "node:util";
import { toBinary } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type CreateTicketRequest,
  CreateTicketRequestSchema,
  type FrontendService,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { peerOfCall } from "@dm-env-rpc/transport";
import { shorten } from "@dm-env-rpc/transport/internal";
import type { MatchIndex } from "../director/indexes/match-index.ts";
import { ended, withdrawn } from "../director/outcomes.ts";
import { invalid, notFound, overloaded } from "../errors/errors.ts";
import type { Emit } from "../model/events.ts";
import { hasEnded, type Ticket } from "../model/model.ts";
import type { MatchmakerSettings } from "../model/settings.ts";
import { checkName, checkSecret } from "../profiles/names.ts";
import { put, type Replica } from "../replica/replica.ts";
import type { TicketEnds } from "../replica/ticket-ends.ts";
import type { Change, Stored } from "../store/store.ts";
import { type Caller, callerOf } from "./authorize.ts";
import { tracedCreate } from "./create-ticket-span.ts";
import { callerKey } from "./limits/admission.ts";
import { fairShare } from "./limits/fair-share.ts";
import { TicketBudget, ticketBytes } from "./limits/ticket-budget.ts";
import { ticketMessage } from "./messages.ts";
import type { Positions } from "./positions.ts";
import type { Presence } from "./presence.ts";
import { hashOf, isSecretOf } from "./secrets.ts";
import type { TicketWatch } from "./ticket-watch.ts";

/** Dependencies that the services share. */
export interface ServiceContext {
  readonly replica: Replica;
  readonly settings: MatchmakerSettings;
  readonly emit: Emit;
  readonly newId: () => string;
}

/** The service for agents. */
export function frontendService(
  context: FrontendContext,
  watch: TicketWatch,
  presence: Presence,
): ServiceImpl<typeof FrontendService> {
  const { replica, positions } = context;
  const budget = new TicketBudget(replica);
  return {
    async createTicket(request, call) {
      checkSecret("ticket_secret", request.ticketSecret);
      const asker = askerOf(call, request);
      const ticket = await tracedCreate(call, (traceparent) =>
        createTicket(context, request, budget, asker, traceparent, call.signal),
      );
      return { ticket: ticketMessage(ticket) };
    },
    async getTicket(request, call) {
      checkSecret("ticket_secret", request.ticketSecret);
      const { ticketId } = request;
      await replica.refresh([{ kind: "ticket", id: ticketId }]);
      const asker = askerOf(call, request);
      const { value } = found(replica, ticketId, asker);
      if (!isOperator(asker.caller)) {
        presence.read(value);
      }
      return { ticket: ticketMessage(value, positions.of(value)) };
    },
    async *watchTicket(request, call) {
      checkSecret("ticket_secret", request.ticketSecret);
      const { ticketId } = request;
      const { signal } = call;
      await replica.refresh([{ kind: "ticket", id: ticketId }]);
      const asker = askerOf(call, request);
      found(replica, ticketId, asker);
      const stopped = isOperator(asker.caller) ? () => {} : presence.watch(ticketId);
      try {
        let told: number | undefined;
        const isNews = (ticket: Ticket): boolean =>
          positions.isNews(positions.of(ticket)?.position, told);
        for await (const ticket of watch.follow(ticketId, signal, isNews)) {
          const place = positions.of(ticket);
          told = place?.position;
          yield { ticket: ticketMessage(ticket, place) };
          if (hasEnded(ticket)) {
            return;
          }
        }
      } finally {
        stopped();
      }
    },
    async cancelTicket(request, call) {
      checkSecret("ticket_secret", request.ticketSecret);
      const ticket = await cancelTicket(context, request.ticketId, askerOf(call, request));
      return { ticket: ticketMessage(ticket) };
    },
  };
}

/** Dependencies of the service for agents. */
export interface FrontendContext extends ServiceContext {
  readonly matchIndex: MatchIndex;
  readonly ends: TicketEnds;
  readonly positions: Positions;
}

/** The caller of a method about a ticket, with the secret that it sent. */
interface Asker {
  readonly caller: Caller | undefined;
  /** Key of the caller whose limits the ticket uses. */
  readonly key: string | undefined;
  readonly secret: string;
}

function askerOf(
  call: Pick<HandlerContext, "values">,
  { ticketSecret: secret }: { readonly ticketSecret: string },
): Asker {
  const caller = callerOf(call);
  return { caller, key: callerKey(caller, peerOfCall(call.values)), secret };
}

function isOperator(caller: Caller | undefined): boolean {
  return caller?.roles.includes("operator") === true;
}

/**
 * Returns true if a caller may access a ticket: an operator may access every ticket. Any other caller
 * needs the identity and the secret that the ticket was created with, if it was created with them.
 */
function isFor({ owner, secretHash }: Ticket, { caller, secret }: Asker): boolean {
  if (isOperator(caller)) {
    return true;
  }
  return (owner === undefined || owner === caller?.identity) && isSecretOf(secretHash, secret);
}

/**
 * Returns a ticket that the caller may access.
 *
 * @throws DmEnvRpcError NOT_FOUND, also for another caller's ticket.
 */
function found(replica: Replica, id: string, asker: Asker): Stored<Ticket> {
  const ticket = replica.get("ticket", id);
  if (ticket === undefined || !isFor(ticket.value, asker)) {
    throw notFound("ticket", id, "create one first");
  }
  return ticket;
}

async function createTicket(
  { replica, settings, newId, matchIndex }: FrontendContext,
  request: CreateTicketRequest,
  budget: TicketBudget,
  asker: Asker,
  traceparent: string | undefined,
  signal: AbortSignal,
): Promise<Ticket> {
  checkTicket(request, settings);
  if (request.priority !== 0 && asker.caller !== undefined && !isOperator(asker.caller)) {
    throw new DmEnvRpcError(
      "PERMISSION_DENIED",
      `priority: expected 0, received ${request.priority}; only operators give tickets a priority`,
    );
  }
  if (
    asker.caller !== undefined &&
    asker.caller.identity === undefined &&
    !isOperator(asker.caller) &&
    asker.secret === ""
  ) {
    throw invalid(
      "ticket_secret",
      "a secret, because this matchmaker does not identify its callers",
      "none; send the same random secret with each call about the ticket",
    );
  }
  if (request.profile !== "" && replica.get("profile", request.profile) === undefined) {
    await replica.refresh([{ kind: "profile", id: request.profile }]);
    if (replica.get("profile", request.profile) === undefined) {
      const known = [...replica.table("profile").keys()].slice(0, 16).map((name) => `"${name}"`);
      const remedy =
        known.length === 0 ? "no profile exists yet" : `known profiles: ${known.join(", ")}`;
      throw notFound("profile", request.profile, remedy);
    }
  }
  const { searchFields } = request;
  checkParty(request, matchIndex);
  const nowMs = replica.now();
  const ticket: Ticket = {
    id: request.ticketId === "" ? newId() : request.ticketId,
    createdMs: nowMs,
    aliveUntilMs: nowMs + settings.ticketLeaseMs,
    profile: request.profile,
    partySize: request.partySize > 1 ? request.partySize : undefined,
    latenciesMs:
      Object.keys(request.latenciesMs).length > 0 ? { ...request.latenciesMs } : undefined,
    priority: request.priority === 0 ? undefined : request.priority,
    owner: asker.caller?.identity,
    caller: isOperator(asker.caller) ? undefined : asker.key,
    secretHash: hashOf(asker.secret),
    search: {
      doubles: { ...searchFields?.doubles },
      strings: { ...searchFields?.strings },
      tags: [...(searchFields?.tags ?? [])],
    },
    extensions: Object.fromEntries(
      Object.entries(request.extensions).map(([name, { typeUrl, value }]) => [
        name,
        { typeUrl, value: base64Encode(value) },
      ]),
    ),
    state: "waiting",
    attempts: 0,
    traceparent,
  };
  const limit = limitMet(replica, settings, budget, ticket);
  if (limit !== undefined) {
    // A repeated create returns the existing ticket, which needs no more room.
    await replica.refresh([{ kind: "ticket", id: ticket.id }]);
    if (replica.get("ticket", ticket.id) === undefined) {
      throw overloaded(limit);
    }
  }
  const created = budget.reserve(ticket);
  try {
    return await putTicket(replica, ticket, asker, signal);
  } finally {
    created();
  }
}

/** Returns the error text of the limit that a new ticket would exceed; undefined if it exceeds none. */
function limitMet(
  replica: Replica,
  settings: MatchmakerSettings,
  budget: TicketBudget,
  ticket: Ticket,
): string | undefined {
  const { maxTickets, maxTicketsBytes, maxTicketsPerCaller, maxTicketsBytesPerCaller } = settings;
  const own = ticket.caller === undefined ? undefined : budget.of(ticket.caller);
  if (own !== undefined && own.open >= maxTicketsPerCaller) {
    return `too many tickets: expected at most ${maxTicketsPerCaller} of one caller that have not ended; cancel some first (limit: maxTicketsPerCaller)`;
  }
  if (own !== undefined && own.bytes + ticketBytes(ticket) > maxTicketsBytesPerCaller) {
    return `too many bytes of tickets: expected at most ${maxTicketsBytesPerCaller} of one caller; try again later, or send a smaller ticket (limit: maxTicketsBytesPerCaller)`;
  }
  const freeTickets = maxTickets - replica.table("ticket").size;
  if (freeTickets <= 0) {
    return `too many tickets: expected at most ${maxTickets}; try again later (limit: maxTickets)`;
  }
  const freeBytes = maxTicketsBytes - budget.bytes;
  if (ticketBytes(ticket) > freeBytes) {
    return `too many bytes of tickets: expected at most ${maxTicketsBytes}; try again later, or send a smaller ticket (limit: maxTicketsBytes)`;
  }
  if (own === undefined) {
    return undefined;
  }
  const mostTickets = fairShare(maxTicketsPerCaller, maxTickets, freeTickets);
  if (own.open >= mostTickets) {
    return `too many tickets: expected at most ${mostTickets} of one caller while ${freeTickets} of ${maxTickets} are free; cancel some, or try again later (limit: maxTickets)`;
  }
  const mostBytes = fairShare(maxTicketsBytesPerCaller, maxTicketsBytes, freeBytes);
  if (own.bytes + ticketBytes(ticket) > mostBytes) {
    return `too many bytes of tickets: expected at most ${mostBytes} of one caller while ${freeBytes} of ${maxTicketsBytes} are free; try again later, or send a smaller ticket (limit: maxTicketsBytes)`;
  }
  return undefined;
}

/** Stores a new ticket. If a ticket with the same id and content exists, returns that ticket unchanged. */
async function putTicket(
  replica: Replica,
  ticket: Ticket,
  asker: Asker,
  signal: AbortSignal,
): Promise<Ticket> {
  let known: Ticket | undefined;
  // Repeats only if the store has lost data: the commit has failed, but no ticket has this id.
  while (known === undefined) {
    // A caller that has aborted this call may already have cancelled the ticket.
    signal.throwIfAborted();
    if (await replica.commit([put("ticket", ticket.id, undefined, ticket)])) {
      return ticket;
    }
    // The call may be a repeated one whose first response was lost.
    known = replica.get("ticket", ticket.id)?.value;
  }
  const isSame =
    isFor(known, asker) &&
    known.profile === ticket.profile &&
    known.partySize === ticket.partySize &&
    known.priority === ticket.priority &&
    isDeepStrictEqual(known.latenciesMs, ticket.latenciesMs) &&
    isDeepStrictEqual(known.search, ticket.search) &&
    isDeepStrictEqual(known.extensions, ticket.extensions);
  if (isSame) {
    return known;
  }
  throw new DmEnvRpcError(
    "ALREADY_EXISTS",
    `ticket_id: expected an unused id, received "${shorten(ticket.id)}" of another caller's ticket, or of a ticket with different content; choose another id, or leave it empty`,
  );
}

/** Refuses a party that is too large for all profiles that may match it. */
function checkParty(
  { partySize, profile }: CreateTicketRequest,
  { profiles }: Pick<MatchIndex, "profiles">,
): void {
  const named = profiles.get(profile);
  const candidates = profile === "" ? [...profiles.values()] : named === undefined ? [] : [named];
  const largest = Math.max(...candidates.map(({ largestParty }) => largestParty));
  if (candidates.length === 0 || partySize <= largest) {
    return;
  }
  const by = named === undefined ? "any profile" : `profile "${named.name}"`;
  throw invalid(
    "party_size",
    `at most ${largest} agents, the largest party that ${by} accepts`,
    `${partySize}; split the party, or raise the profile's count, seats or team sizes`,
  );
}

function checkTicket(
  request: CreateTicketRequest,
  { maxTicketBytes, maxPartySize }: MatchmakerSettings,
): void {
  const size = toBinary(CreateTicketRequestSchema, request).length;
  if (size > maxTicketBytes) {
    throw new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `expected a ticket of at most ${maxTicketBytes} bytes, received one of ${size} bytes; send less data in the ticket (limit: maxTicketBytes)`,
    );
  }
  checkName("ticket_id", request.ticketId);
  for (const [region, ms] of Object.entries(request.latenciesMs)) {
    if (!(ms >= 0 && ms < Number.POSITIVE_INFINITY)) {
      throw invalid(
        `latencies_ms "${shorten(region)}"`,
        "a number of milliseconds of at least 0",
        String(ms),
      );
    }
  }
  if (request.partySize > maxPartySize) {
    throw invalid(
      "party_size",
      `at most ${maxPartySize} (limit: maxPartySize)`,
      String(request.partySize),
    );
  }
  for (const [name, value] of Object.entries(request.searchFields?.doubles ?? {})) {
    if (!Number.isFinite(value)) {
      throw invalid(`search_fields.doubles "${shorten(name)}"`, "a finite number", String(value));
    }
  }
}

async function cancelTicket(
  { replica, ends }: FrontendContext,
  id: string,
  asker: Asker,
): Promise<Ticket> {
  await replica.refresh([{ kind: "ticket", id }]);
  for (;;) {
    const ticket = found(replica, id, asker);
    if (hasEnded(ticket.value)) {
      return ticket.value;
    }
    const cancelled = ended(ticket.value, "cancelled", replica.now());
    const changes: Change[] = [put("ticket", id, ticket, cancelled)];
    const { matchId } = ticket.value;
    if (matchId !== undefined) {
      if (replica.get("match", matchId) === undefined) {
        await replica.refresh([
          { kind: "match", id: matchId },
          { kind: "ticket", id },
        ]);
        if (replica.get("match", matchId) === undefined) {
          continue;
        }
      }
      const match = replica.get("match", matchId);
      if (match !== undefined) {
        const server = replica.get("server", match.value.serverId)?.value;
        const left = withdrawn(match.value, ticket.value, server?.joinTokens ?? true);
        changes.push(put("match", matchId, match, left));
      }
    }
    if (await ends.commit(changes)) {
      return cancelled;
    }
  }
}
