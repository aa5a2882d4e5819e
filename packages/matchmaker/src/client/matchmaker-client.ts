// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  FrontendService,
  SearchFieldsSchema,
  TicketState as State,
  type Ticket,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { unpackStatus } from "@dm-env-rpc/tensor-codec/proto";
import {
  fromCallError,
  messageOf,
  pause,
  systemTime,
  type TimeSource,
  toConnectError,
} from "@dm-env-rpc/transport/internal";
import { Callers, type CallersOptions, isPassing, retryAfterMs } from "../callers.ts";
import type { TicketState } from "../model.ts";

/** What an agent, or a party of agents, would like to play. */
export interface TicketInit {
  /** Numbers that pools filter by; finite. */
  readonly doubles?: Readonly<Record<string, number>> | undefined;
  /** Texts that pools filter by. */
  readonly strings?: Readonly<Record<string, string>> | undefined;
  /** Tags that pools filter by. */
  readonly tags?: readonly string[] | undefined;
  /** For match functions of the operator's own. */
  readonly extensions?: Readonly<Record<string, Any>> | undefined;
  /** The only profile that may match the ticket. Default: any. */
  readonly profile?: string | undefined;
  /** Agents that the ticket is for: they play in one team of one match. Default 1. */
  readonly partySize?: number | undefined;
  /** Round-trip times to the regions of servers, in milliseconds. Default: every region will do. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /** Tickets of a higher priority are matched first; where callers have roles, operators alone set it. Default 0. */
  readonly priority?: number | undefined;
}

/** Where a ticket's agent joins. */
export interface TicketAssignment {
  readonly address: string;
  readonly worldName: string;
  /** Lets the agent in, once, until it expires. */
  readonly joinToken: string;
  /** Such a token for each agent of the party; the first is `joinToken`. */
  readonly joinTokens: readonly string[];
  /** When the seat is given up unless it has been taken, in milliseconds since 1970 by the matchmaker's time. */
  readonly expiresMs: number;
  /** The team that the agent plays in. */
  readonly team: string;
  /** The role of its team; empty where it has none. */
  readonly role: string;
  /** The data of the profile, with what the match function added. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** A ticket as it is now. */
export interface TicketUpdate {
  readonly ticketId: string;
  readonly state: TicketState;
  /** Undefined unless the ticket is in a match. */
  readonly matchId: string | undefined;
  /** Where to join, while the state is `assigned` or `joined`. */
  readonly assignment: TicketAssignment | undefined;
  /** Why the ticket failed, or went back to its pools. */
  readonly error: DmEnvRpcError | undefined;
}

/** How to find a match. */
export interface FindOptions {
  /** Gives up when aborted: the ticket is cancelled and the iteration rejects with CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /** How long no matchmaker may answer, or have room for the ticket, in milliseconds; each call has its own `timeoutMs`. Default 60,000. */
  readonly unreachableMs?: number | undefined;
}

/** An agent's matchmaker. */
export interface MatchmakerClient {
  /**
   * Creates a ticket and tells of it: as it is, and again whenever it changes, until it has ended.
   *
   * An iteration that is left before the ticket is assigned cancels it. One that goes on
   * after the assignment learns when the world is lost and the ticket waits again. When a matchmaker goes away, the next one is
   * asked; an update may come twice then. One that kept its state in its memory and is started anew gets the ticket
   * again, unless it was assigned.
   *
   * @throws DmEnvRpcError of origin `server` with what the matchmaker answers; of origin `connection`, UNAVAILABLE or
   * DEADLINE_EXCEEDED, when none has for `unreachableMs`.
   */
  find(ticket?: TicketInit, options?: FindOptions): AsyncIterable<TicketUpdate>;
  /**
   * Creates a ticket and waits until it is assigned.
   *
   * @throws DmEnvRpcError why it failed, or CANCELLED; else as `find` does.
   */
  findMatch(
    ticket?: TicketInit,
    options?: FindOptions,
  ): Promise<TicketAssignment & { readonly ticketId: string }>;
  /**
   * A ticket as it is now.
   *
   * @throws DmEnvRpcError NOT_FOUND when it is not known, or no longer: the matchmaker forgets those that have ended (`retainMs`).
   */
  get(ticketId: string): Promise<TicketUpdate>;
  /**
   * Takes a ticket back, in whichever state. Its seat is free when its agent has left, or the join token that it did
   * not use has expired. A ticket that has ended stays what it is.
   *
   * @throws DmEnvRpcError NOT_FOUND as `get` does.
   */
  cancel(ticketId: string): Promise<TicketUpdate>;
}

/** How a client reaches its matchmaker. */
export interface MatchmakerClientOptions extends Omit<CallersOptions, "matchmakers"> {
  /**
   * Proves that tickets are this client's own: for any other there are none. Give clients the same where one asks for the
   * tickets of another. Default: random, of this client alone.
   */
  readonly ticketSecret?: string | undefined;
  /** Default: the machine's time. */
  readonly time?: TimeSource | undefined;
}

const retryMs = 250;
const defaultUnreachableMs = 60_000;

/**
 * Makes a client of a matchmaker, or of several that share a store.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a malformed address, or without one.
 */
export function matchmakerClient(
  matchmakers: string | readonly string[],
  options: MatchmakerClientOptions = {},
): MatchmakerClient {
  const { time = systemTime, ticketSecret = randomUUID() } = options;
  const callers = new Callers(FrontendService, { ...options, matchmakers });

  /** Asks until somebody answers. */
  const persist = async <T>(run: () => Promise<T>, find: FindOptions): Promise<T> => {
    const sinceMs = time.now();
    for (;;) {
      try {
        return await run();
      } catch (error) {
        const { signal, unreachableMs = defaultUnreachableMs } = find;
        const roomMs = retryAfterMs(error);
        if (signal?.aborted === true || (roomMs === undefined && !isPassing(error))) {
          throw error;
        }
        if (time.now() - sinceMs >= unreachableMs) {
          throw error;
        }
        callers.next();
        await pause(time, roomMs ?? retryMs, signal);
        signal?.throwIfAborted();
      }
    }
  };

  async function* find(ticket: TicketInit = {}, options: FindOptions = {}) {
    const { signal } = options;
    // An id of one's own: asking again for it is no second ticket.
    const ticketId = randomUUID();
    const request = {
      ticketId,
      ticketSecret,
      searchFields: create(SearchFieldsSchema, {
        doubles: { ...ticket.doubles },
        strings: { ...ticket.strings },
        tags: [...(ticket.tags ?? [])],
      }),
      extensions: { ...ticket.extensions },
      profile: ticket.profile ?? "",
      partySize: ticket.partySize ?? 1,
      latenciesMs: { ...ticket.latenciesMs },
      priority: ticket.priority ?? 0,
    };
    let isOpen = true;
    // Leaving a stream's iteration does not end the stream.
    const left = new AbortController();
    const watching = AbortSignal.any(signal === undefined ? [left.signal] : [left.signal, signal]);
    try {
      for (;;) {
        // One that a matchmaker without a store has forgotten waits anew; any other stays what it is.
        if (isOpen) {
          await persist(
            () => callers.client.createTicket(request, callers.options(signal)),
            options,
          );
        }
        const updates = await persist(async () => {
          // It answers at once with what there is; what comes later may take any time.
          const silent = new AbortController();
          const signal = AbortSignal.any([watching, silent.signal]);
          const stream = callers.client.watchTicket({ ticketId, ticketSecret }, { signal });
          const iterator = stream[Symbol.asyncIterator]();
          const cancel = time.after(callers.timeoutMs, () =>
            silent.abort(toConnectError(unanswered(callers.name, callers.timeoutMs))),
          );
          try {
            return { iterator, first: await iterator.next() };
          } finally {
            cancel();
          }
        }, options);
        let next = updates.first;
        while (next.done !== true) {
          const update = updateOf(next.value.ticket);
          isOpen = update.state === "waiting" || update.state === "matched";
          yield update;
          if (hasEnded(update)) {
            return;
          }
          try {
            next = await updates.iterator.next();
          } catch (error) {
            if (!isPassing(error)) {
              throw error;
            }
            break;
          }
        }
      }
    } catch (error) {
      if (signal?.aborted === true) {
        throw givenUp(signal);
      }
      // What the matchmaker refused is no ticket.
      throw fromCallError(error);
    } finally {
      left.abort();
      if (isOpen) {
        await callers
          .call((client, call) => client.cancelTicket({ ticketId, ticketSecret }, call))
          .catch(() => {});
      }
    }
  }

  return {
    find,
    async findMatch(ticket, options) {
      for await (const { ticketId, state, assignment, error } of find(ticket, options)) {
        if (assignment !== undefined) {
          return { ticketId, ...assignment };
        }
        if (state === "failed" && error !== undefined) {
          throw error;
        }
        if (state === "completed" || state === "cancelled") {
          throw new DmEnvRpcError("CANCELLED", `the ticket was ${state} before it was assigned`);
        }
      }
      throw new DmEnvRpcError("ABORTED", "the ticket is no longer known; create another one");
    },
    async get(ticketId) {
      const { ticket } = await callers.call((client, call) =>
        client.getTicket({ ticketId, ticketSecret }, call),
      );
      return updateOf(ticket);
    },
    async cancel(ticketId) {
      const { ticket } = await callers.call((client, call) =>
        client.cancelTicket({ ticketId, ticketSecret }, call),
      );
      return updateOf(ticket);
    },
  };
}

const states: ReadonlyMap<State, TicketState> = new Map([
  [State.WAITING, "waiting"],
  [State.MATCHED, "matched"],
  [State.ASSIGNED, "assigned"],
  [State.JOINED, "joined"],
  [State.COMPLETED, "completed"],
  [State.CANCELLED, "cancelled"],
  [State.FAILED, "failed"],
]);

function unanswered(name: string, timeoutMs: number): DmEnvRpcError {
  return new DmEnvRpcError("DEADLINE_EXCEEDED", `${name} did not answer within ${timeoutMs} ms`, {
    origin: "connection",
  });
}

function givenUp({ reason }: AbortSignal): DmEnvRpcError {
  return new DmEnvRpcError("CANCELLED", `finding a match was given up: ${messageOf(reason)}`, {
    origin: "client",
    cause: reason,
  });
}

function hasEnded({ state }: TicketUpdate): boolean {
  return state === "completed" || state === "cancelled" || state === "failed";
}

function updateOf(ticket: Ticket | undefined): TicketUpdate {
  const state = states.get(ticket?.state ?? State.UNSPECIFIED);
  if (ticket === undefined || state === undefined) {
    throw new DmEnvRpcError(
      "INTERNAL",
      `expected a ticket in a known state, received ${ticket === undefined ? "none" : `state ${ticket.state}`}; the matchmaker may be newer than this client`,
      { origin: "connection" },
    );
  }
  const { assignment, error } = ticket;
  return {
    ticketId: ticket.id,
    state,
    matchId: ticket.matchId === "" ? undefined : ticket.matchId,
    assignment: assignment && {
      address: assignment.address,
      worldName: assignment.worldName,
      joinToken: assignment.joinToken,
      joinTokens: assignment.joinTokens.length > 0 ? assignment.joinTokens : [assignment.joinToken],
      team: assignment.team,
      role: assignment.role,
      data: assignment.data ?? {},
      expiresMs: assignment.expireTime === undefined ? 0 : timestampMs(assignment.expireTime),
    },
    error: error && unpackStatus(error),
  };
}
