// SPDX-License-Identifier: Apache-2.0
import type { Interceptor } from "@connectrpc/connect";
import { FrontendService } from "@dm-env-rpc/protocol/matchmaker";
import { type ListenOptions, type Peer, peerOfCall, type RouteCall } from "@dm-env-rpc/transport";
import { Counts, networkOf, type TimeSource, TokenBuckets } from "@dm-env-rpc/transport/internal";
import { overloaded } from "../errors.ts";
import type { MatchmakerSettings } from "../settings.ts";
import { type Caller, callerOf } from "./authorize.ts";

/**
 * Kinds of call with a limit each, so that no kind uses up the room of the others: watches of
 * tickets, other calls of agents, and the calls of servers, operators and health checks.
 */
type Pool = "watches" | "calls" | "reserved";

const limits = {
  watches: ["maxWatches", "maxWatchesPerCaller"],
  calls: ["maxCalls", "maxCallsPerCaller"],
  reserved: ["reservedCalls", "maxCallsPerCaller"],
} as const satisfies Record<Pool, readonly [keyof MatchmakerSettings, keyof MatchmakerSettings]>;

/** A call that the listener has admitted. */
interface Admitted {
  readonly pool: Pool;
  hasEnded: boolean;
  /** Ends the call's use of its caller's limits; does nothing for a caller without limits. */
  credit: () => void;
  /** Stops counting the call as unread for its network; does nothing if its pool is not `reserved`. */
  hasBeenRead: () => void;
}

/** Share of the reserve that the unread requests of one network may use. */
const unreadShare = 1 / 8;

/**
 * Returns the key of the caller whose limits a call uses: the identity that `authorize` returned,
 * otherwise the network of its address; undefined if neither is known, as for a call within the
 * matchmaker's own process.
 */
export function callerKey(caller: Caller | undefined, { address }: Peer): string | undefined {
  if (caller?.identity !== undefined) {
    return `identity ${caller.identity}`;
  }
  return address === "unknown" ? undefined : `address ${networkOf(address)}`;
}

/**
 * Limits the concurrent calls and the call rate of each caller. A call uses the limits of its network until its
 * request has been read and `authorize` has answered, then the limits of its caller.
 */
export class Admission {
  readonly #settings: MatchmakerSettings;
  readonly #admitted = new WeakMap<Peer, Admitted>();
  readonly #open: Record<Pool, number> = { watches: 0, calls: 0, reserved: 0 };
  /** Open calls of each pool by caller. */
  readonly #byCaller: Readonly<Record<Pool, Counts<string>>> = {
    watches: new Counts(),
    calls: new Counts(),
    reserved: new Counts(),
  };
  readonly #rates: TokenBuckets;
  /** Calls in the reserve whose requests have not been read, by network. */
  readonly #unread = new Counts<string>();

  constructor(settings: MatchmakerSettings, time: TimeSource) {
    this.#settings = settings;
    this.#rates = new TokenBuckets(settings.maxCallsPerSecond, () => time.now());
  }

  /**
   * Counts a call of the listener before its request is read.
   *
   * @returns A function that ends the call.
   * @throws ConnectError RESOURCE_EXHAUSTED with the metadata `retry-after`.
   */
  readonly admit: NonNullable<ListenOptions["onCall"]> = ({ path, peer }: RouteCall) => {
    const pool = poolOf(path);
    const [most] = limits[pool];
    if (this.#open[pool] >= this.#settings[most]) {
      throw overloaded(
        `too many ${nouns[pool]}: expected at most ${this.#settings[most]} at a time; try again later (limit: ${most})`,
      );
    }
    const call: Admitted = { pool, hasEnded: false, credit: () => {}, hasBeenRead: () => {} };
    const network = callerKey(undefined, peer);
    if (pool === "reserved" && network !== undefined) {
      call.hasBeenRead = this.#countUnread(network);
    }
    try {
      this.#charge(call, network);
    } catch (error) {
      call.hasBeenRead();
      throw error;
    }
    this.#open[pool] += 1;
    this.#admitted.set(peer, call);
    return () => {
      call.hasEnded = true;
      call.hasBeenRead();
      this.#open[pool] -= 1;
      call.credit();
    };
  };

  /**
   * Applies the limits of a call's caller once the caller is identified. The calls of a caller that
   * `authorize` identifies as an operator or a server have no limits per caller.
   */
  readonly interceptor: Interceptor = (next) => async (request) => {
    const peer = peerOfCall(request.contextValues);
    const caller = callerOf({ values: request.contextValues });
    const isTrusted = caller?.roles.some((role) => role !== "agent") ?? false;
    const key = isTrusted ? undefined : callerKey(caller, peer);
    if (key !== undefined) {
      this.#spend(key);
    }
    const call = this.#admitted.get(peer);
    call?.hasBeenRead();
    if (call?.hasEnded === false) {
      call.credit();
      this.#charge(call, key);
    }
    return await next(request);
  };

  /**
   * Keeps a few networks from filling the reserve with calls whose requests have not been read.
   *
   * @returns A function to call once the request has been read, or the call has ended. Idempotent.
   */
  #countUnread(network: string): () => void {
    const most = Math.max(1, Math.floor(this.#settings.reservedCalls * unreadShare));
    if (this.#unread.of(network) >= most) {
      throw overloaded(
        `too many calls of servers and operators with incomplete requests: expected at most ${most} from one address, an eighth of reservedCalls; send the rest of some requests first (limit: reservedCalls)`,
      );
    }
    return this.#unread.add(network);
  }

  #charge(call: Admitted, key: string | undefined): void {
    if (key === undefined) {
      return;
    }
    const [, most] = limits[call.pool];
    const open = this.#byCaller[call.pool];
    if (open.of(key) >= this.#settings[most]) {
      throw overloaded(
        `too many ${nouns[call.pool]}: expected at most ${this.#settings[most]} of one caller at a time; end some first (limit: ${most})`,
      );
    }
    call.credit = open.add(key);
  }

  #spend(key: string): void {
    if (!this.#rates.take(key)) {
      throw overloaded(
        `too many calls: expected at most ${this.#settings.maxCallsPerSecond} per second of one caller, in bursts of at most ${this.#rates.burst}; call less often (limit: maxCallsPerSecond)`,
        // Every caller earns at least one call per second.
        { retryAfterS: 1 },
      );
    }
  }
}

const nouns: Readonly<Record<Pool, string>> = {
  watches: "watches of tickets",
  calls: "calls of agents",
  reserved: "calls of servers and operators",
};

function poolOf(path: string): Pool {
  const { typeName, method } = FrontendService;
  if (path === `/${typeName}/${method.watchTicket.name}`) {
    return "watches";
  }
  return path.startsWith(`/${typeName}/`) ? "calls" : "reserved";
}
