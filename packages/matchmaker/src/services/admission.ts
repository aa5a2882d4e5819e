// SPDX-License-Identifier: Apache-2.0
import type { Interceptor } from "@connectrpc/connect";
import { FrontendService } from "@dm-env-rpc/protocol/matchmaker";
import { type ListenOptions, type Peer, peerOfCall, type RouteCall } from "@dm-env-rpc/transport";
import { networkOf, type TimeSource } from "@dm-env-rpc/transport/internal";
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

/** Size of a caller's burst, in seconds of its rate. */
const burstS = 4;
/** Callers whose rates are remembered; past this number, idle callers are forgotten. */
const maxBuckets = 10_000;

/** A call that the listener has admitted. */
interface Admitted {
  readonly pool: Pool;
  /** Key of the caller whose limits the call uses; undefined for a caller without limits. */
  key: string | undefined;
  hasEnded: boolean;
  /**
   * Network whose share of the reserve the call uses until its request has been read; undefined in
   * the other pools.
   */
  unread: string | undefined;
}

/** Share of the reserve that the unread requests of one network may use. */
const unreadShare = 1 / 8;

/** Calls that a caller's rate still allows. */
interface Bucket {
  tokens: number;
  atMs: number;
}

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
 * Limits the concurrent calls and the call rate of each caller. A call uses the limits of its network until its request has
 * been read and `authorize` has answered, then the limits of its caller.
 */
export class Admission {
  readonly #settings: MatchmakerSettings;
  readonly #time: TimeSource;
  readonly #admitted = new WeakMap<Peer, Admitted>();
  readonly #open: Record<Pool, number> = { watches: 0, calls: 0, reserved: 0 };
  readonly #accounts: Readonly<Record<Pool, Map<string, number>>> = {
    watches: new Map(),
    calls: new Map(),
    reserved: new Map(),
  };
  readonly #buckets = new Map<string, Bucket>();
  /** Number of calls in the reserve whose requests have not been read, by network. */
  readonly #unread = new Map<string, number>();

  constructor(settings: MatchmakerSettings, time: TimeSource) {
    this.#settings = settings;
    this.#time = time;
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
    const call: Admitted = { pool, key: undefined, hasEnded: false, unread: undefined };
    const network = callerKey(undefined, peer);
    if (pool === "reserved" && network !== undefined) {
      this.#countUnread(call, network);
    }
    try {
      this.#charge(call, network);
    } catch (error) {
      this.#hasBeenRead(call);
      throw error;
    }
    this.#open[pool] += 1;
    this.#admitted.set(peer, call);
    return () => {
      call.hasEnded = true;
      this.#hasBeenRead(call);
      this.#open[pool] -= 1;
      this.#credit(call);
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
    if (call !== undefined) {
      this.#hasBeenRead(call);
    }
    if (call !== undefined && !call.hasEnded && call.key !== key) {
      this.#credit(call);
      this.#charge(call, key);
    }
    return await next(request);
  };

  /** Keeps a few networks from filling the reserve with calls whose requests have not been read. */
  #countUnread(call: Admitted, network: string): void {
    const most = Math.max(1, Math.floor(this.#settings.reservedCalls * unreadShare));
    const unread = this.#unread.get(network) ?? 0;
    if (unread >= most) {
      throw overloaded(
        `too many unread requests of servers and operators: expected at most ${most} from one address, an eighth of the reserve; finish some first (limit: reservedCalls)`,
      );
    }
    this.#unread.set(network, unread + 1);
    call.unread = network;
  }

  #hasBeenRead(call: Admitted): void {
    const { unread } = call;
    if (unread === undefined) {
      return;
    }
    call.unread = undefined;
    const left = (this.#unread.get(unread) ?? 1) - 1;
    if (left === 0) {
      this.#unread.delete(unread);
    } else {
      this.#unread.set(unread, left);
    }
  }

  #charge(call: Admitted, key: string | undefined): void {
    const [, most] = limits[call.pool];
    const account = this.#accounts[call.pool];
    if (key === undefined) {
      return;
    }
    const open = account.get(key) ?? 0;
    if (open >= this.#settings[most]) {
      throw overloaded(
        `too many ${nouns[call.pool]}: expected at most ${this.#settings[most]} of one caller at a time; end some first (limit: ${most})`,
      );
    }
    account.set(key, open + 1);
    call.key = key;
  }

  #credit(call: Admitted): void {
    const account = this.#accounts[call.pool];
    const { key } = call;
    if (key === undefined) {
      return;
    }
    const left = (account.get(key) ?? 1) - 1;
    if (left === 0) {
      account.delete(key);
    } else {
      account.set(key, left);
    }
    call.key = undefined;
  }

  #spend(key: string): void {
    const { maxCallsPerSecond } = this.#settings;
    const nowMs = this.#time.now();
    const most = maxCallsPerSecond * burstS;
    const bucket = this.#buckets.get(key) ?? { tokens: most, atMs: nowMs };
    const earned = (Math.max(0, nowMs - bucket.atMs) / 1_000) * maxCallsPerSecond;
    bucket.tokens = Math.min(most, bucket.tokens + earned);
    bucket.atMs = nowMs;
    if (this.#buckets.size >= maxBuckets && !this.#buckets.has(key)) {
      this.#forget(nowMs);
    }
    this.#buckets.set(key, bucket);
    if (bucket.tokens < 1) {
      throw overloaded(
        `too many calls: expected at most ${maxCallsPerSecond} per second of one caller, in bursts of at most ${most}; call less often (limit: maxCallsPerSecond)`,
        // Every caller earns at least one call per second.
        { retryAfterS: 1 },
      );
    }
    bucket.tokens -= 1;
  }

  /** Forgets callers that may make a whole burst again. */
  #forget(nowMs: number): void {
    for (const [key, { atMs }] of this.#buckets) {
      if (nowMs - atMs >= burstS * 1_000) {
        this.#buckets.delete(key);
      }
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
