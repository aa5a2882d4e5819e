// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
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
import { traceMetadata } from "@dm-env-rpc/transport/internal/tracing";
import {
  Callers,
  type CallersOptions,
  isTransient,
  retryAfterMs,
  retryMs,
} from "../calls/callers.ts";
import { milliseconds } from "../model/durations.ts";
import type { TicketState } from "../model/model.ts";

/** Request of an agent, or of a party of agents, for a match. */
export interface TicketInit {
  /** Numbers that pools filter by; finite. */
  readonly doubles?: Readonly<Record<string, number>> | undefined;
  /** Texts that pools filter by. */
  readonly strings?: Readonly<Record<string, string>> | undefined;
  /** Tags that pools filter by. */
  readonly tags?: readonly string[] | undefined;
  /** Data for custom match functions. */
  readonly extensions?: Readonly<Record<string, Any>> | undefined;
  /** The only profile that may match the ticket. Default: any. */
  readonly profile?: string | undefined;
  /** Number of agents, which play in one team of one match. Default 1. */
  readonly partySize?: number | undefined;
  /** Round-trip times to the regions of servers, in milliseconds. Default: accepts every region. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /**
   * Tickets with a higher priority are matched first. If callers have roles, only operators may set a
   * priority. Default 0.
   */
  readonly priority?: number | undefined;
}

/** Address, world and token with which a ticket's agent joins. */
export interface TicketAssignment {
  readonly address: string;
  readonly worldName: string;
  /** Admits one agent, until the token expires. */
  readonly joinToken: string;
  /** One token for each agent of the party; the first is `joinToken`. */
  readonly joinTokens: readonly string[];
  /**
   * Time at which an unused join token expires, in milliseconds since 1970 on the matchmaker's clock.
   */
  readonly expiresMs: number;
  /** The team that the agent plays in. */
  readonly team: string;
  /** The role of the team; empty if the team has no role. */
  readonly role: string;
  /** The data of the profile, with additions of the match function. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The current state of a ticket. */
export interface TicketUpdate {
  readonly ticketId: string;
  readonly state: TicketState;
  /** The ticket's match, or its last match if the ticket has ended; undefined if it has none. */
  readonly matchId: string | undefined;
  /** The ticket's assignment, while its state is `assigned` or `joined`. */
  readonly assignment: TicketAssignment | undefined;
  /**
   * Estimated place among the waiting tickets: 1 for the ticket that is matched next. Undefined unless the
   * ticket waits in a pool.
   */
  readonly position: number | undefined;
  /** Estimated time until the ticket is matched, at the current rate; undefined if unknown. */
  readonly estimatedWaitMs: number | undefined;
  /** Reason why the ticket failed or waits again. */
  readonly error: DmEnvRpcError | undefined;
}

/** Options of `find` and `findMatch`. */
export interface FindOptions {
  /** Ends the iteration with CANCELLED when aborted, and cancels the ticket unless it is assigned. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Time to keep retrying while no matchmaker answers or has room for the ticket, in milliseconds.
   * Each attempt is also limited by `timeoutMs`. Default 60,000.
   */
  readonly unreachableMs?: number | undefined;
}

/** An agent's client of a matchmaker. */
export interface MatchmakerClient {
  /**
   * Creates a ticket and yields its current state, then its changes, until the ticket has ended. A slow
   * reader misses states in between.
   *
   * Leaving the iteration before the ticket is assigned cancels the ticket. If you go on iterating after
   * the assignment, you also learn when the world is lost and the ticket waits again. If a matchmaker is
   * gone, the next one is called; an update may then arrive twice. If a matchmaker loses its state in a
   * restart, the ticket is created again, unless it was assigned.
   *
   * @throws DmEnvRpcError of origin `server` with the matchmaker's error; of origin `connection`,
   *   UNAVAILABLE or DEADLINE_EXCEEDED, if no matchmaker has answered for `unreachableMs`.
   */
  find(ticket?: TicketInit, options?: FindOptions): AsyncIterable<TicketUpdate>;
  /**
   * Creates a ticket and waits until it is assigned.
   *
   * @throws DmEnvRpcError with the reason why the ticket failed, CANCELLED if the ticket was
   *   cancelled or completed, and as `find` does.
   */
  findMatch(
    ticket?: TicketInit,
    options?: FindOptions,
  ): Promise<TicketAssignment & { readonly ticketId: string }>;
  /**
   * Returns the current state of a ticket.
   *
   * @throws DmEnvRpcError NOT_FOUND for an unknown ticket, or a ticket that ended more than the
   *   matchmaker's `retainMs` (5 minutes by default) ago.
   */
  get(ticketId: string): Promise<TicketUpdate>;
  /**
   * Cancels a ticket that has not ended; an ended ticket is returned unchanged. The seat becomes free
   * when the agent has left, or its unused join token has expired.
   *
   * @throws DmEnvRpcError NOT_FOUND as `get` does.
   */
  cancel(ticketId: string): Promise<TicketUpdate>;
}

/** Options of `matchmakerClient`. */
export interface MatchmakerClientOptions extends Omit<CallersOptions, "matchmakers"> {
  /**
   * Proves that tickets belong to this client; other clients cannot see them. Clients that access
   * each other's tickets need the same secret, of at most 1,000 characters. Default: a random secret for each client.
   */
  readonly ticketSecret?: string | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/** Upper bounds of the first and of every delay after a failed call without `retry-after`. */
const delays = { initialMs: 250, maxMs: 2_000 } as const;
const defaultUnreachableMs = 60_000;

/**
 * Creates a client of a matchmaker, or of several that share a store.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if an address is malformed, or no address is given.
 *
 * @example
 * const matchmaker = matchmakerClient("localhost:8990");
 * const assignment = await matchmaker.findMatch({ profile: "duel" });
 * const environment = await joinMatch(assignment);
 */
export function matchmakerClient(
  matchmakers: string | readonly string[],
  options: MatchmakerClientOptions = {},
): MatchmakerClient {
  const { time = systemTime, random, ticketSecret = crypto.randomUUID() } = options;
  const callers = new Callers(FrontendService, { ...options, matchmakers });

  /** Retries for `unreachableMs` while no matchmaker answers or has room. */
  const persist = async <T>(run: () => Promise<T>, find: FindOptions): Promise<T> => {
    const sinceMs = time.now();
    for (let failures = 1; ; failures++) {
      try {
        return await run();
      } catch (error) {
        const { signal, unreachableMs = defaultUnreachableMs } = find;
        const isForLater = retryAfterMs(error) !== undefined || isTransient(error);
        if (signal?.aborted === true || !isForLater) {
          throw error;
        }
        if (time.now() - sinceMs >= unreachableMs) {
          throw error;
        }
        callers.next();
        await pause(time, retryMs(error, failures, { ...delays, random }), signal);
        signal?.throwIfAborted();
      }
    }
  };

  async function* find(ticket: TicketInit = {}, options: FindOptions = {}) {
    const { signal } = options;
    // The client chooses the id so that a retry does not create a second ticket.
    const ticketId = crypto.randomUUID();
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
    const headers = traceMetadata();
    let isOpen = true;
    // Leaving the iteration of a stream does not end the stream.
    const left = new AbortController();
    const watching = AbortSignal.any(signal === undefined ? [left.signal] : [left.signal, signal]);
    try {
      for (;;) {
        const updates = await persist(async () => {
          // Creates the ticket again in case the matchmaker lost it with its store. An assigned ticket
          // is not created again.
          if (isOpen) {
            await callers.client.createTicket(request, { ...callers.options(signal), headers });
          }
          // The first message arrives immediately; later ones may take any time.
          const silent = new AbortController();
          const signals = AbortSignal.any([watching, silent.signal]);
          const stream = callers.client.watchTicket(
            { ticketId, ticketSecret },
            { signal: signals },
          );
          const iterator = stream[Symbol.asyncIterator]();
          const cancel = time.after(callers.timeoutMs, () =>
            silent.abort(toConnectError(unanswered(callers.name, callers.timeoutMs))),
          );
          try {
            return { iterator, first: await iterator.next() };
          } catch (error) {
            throw isOpen && isUnknown(error) ? lostTicket(error) : error;
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
            if (!isTransient(error)) {
              throw error;
            }
            break;
          }
        }
      }
    } catch (error) {
      if (signal?.aborted === true) {
        throw cancelled(signal);
      }
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
      throw new DmEnvRpcError("ABORTED", "the ticket is no longer known; create another ticket");
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

function isUnknown(error: unknown): boolean {
  return ConnectError.from(error).code === Code.NotFound;
}

/** Creates a transient error: the matchmaker lost the ticket between two calls. */
function lostTicket(cause: unknown): ConnectError {
  const { rawMessage } = ConnectError.from(cause);
  return new ConnectError(rawMessage, Code.Aborted, undefined, undefined, cause);
}

function cancelled({ reason }: AbortSignal): DmEnvRpcError {
  return new DmEnvRpcError(
    "CANCELLED",
    `finding a match was cancelled by its signal: ${messageOf(reason)}`,
    {
      origin: "client",
      cause: reason,
    },
  );
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
    position: ticket.position === 0 ? undefined : ticket.position,
    estimatedWaitMs: milliseconds(ticket.estimatedWait),
    error: error && unpackStatus(error),
  };
}
