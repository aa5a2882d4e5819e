// SPDX-License-Identifier: Apache-2.0
import type { HandlerContext, Interceptor } from "@connectrpc/connect";
import { Health } from "@dm-env-rpc/protocol/health";
import { AdminService, FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { type ListenOptions, type Peer, peerOfCall, type RouteCall } from "@dm-env-rpc/transport";
import { Counts, networkOf, type TimeSource, TokenBuckets } from "@dm-env-rpc/transport/internal";
import { overloaded, toConnectError } from "../../errors/errors.ts";
import type { MatchmakerSettings } from "../../model/settings.ts";
import { type Caller, type CheckCaller, callerOf } from "../authorize.ts";
import { fairShare } from "./fair-share.ts";

/**
 * Kinds of call with a limit each, so that no kind uses up the room of the others: watches of
 * tickets, other calls of agents, and the calls of servers and operators. Health and reflection, which
 * anyone may call, have `maxOpenCalls`.
 */
type Pool = "watches" | "calls" | "reserved";

const limits = {
  watches: ["maxWatches", "maxWatchesPerCaller"],
  calls: ["maxCalls", "maxCallsPerCaller"],
  reserved: ["reservedCalls", "maxCallsPerCaller"],
} as const satisfies Record<Pool, readonly [keyof MatchmakerSettings, keyof MatchmakerSettings]>;

/** A part of the reserve: calls of the registry by callers that are not operators. */
interface ServerPart {
  readonly noun: string;
  readonly has: (path: string) => boolean;
  /** Returns the maximum number of concurrent calls. */
  readonly most: (reservedCalls: number) => number;
}

/**
 * Parts of the reserve, so that registrations leave room for reports, which renew leases, and the calls of servers
 * leave room for operators.
 */
const serverParts: readonly ServerPart[] = [
  {
    noun: "registrations of servers",
    has: (path) =>
      path === `/${RegistryService.typeName}/${RegistryService.method.registerServer.name}`,
    most: (reservedCalls) => Math.ceil((reservedCalls * 3) / 4),
  },
  {
    noun: "calls of servers",
    has: (path) => path.startsWith(`/${RegistryService.typeName}/`),
    most: (reservedCalls) => Math.ceil((reservedCalls * 7) / 8),
  },
];

/** A call that the listener has admitted. */
interface Admitted {
  readonly path: string;
  readonly pool: Pool;
  /** True once the gate has accepted the call, or if its service has no gate. */
  isAccepted: boolean;
  hasEnded: boolean;
  /** Ends the call's use of its caller's limits; does nothing for a caller without limits. */
  credit: () => void;
  /** Stops counting the call in the parts of the reserve. */
  leaveParts: () => void;
  /** Stops counting the call as unread for its network; does nothing if its pool is not `reserved`. */
  hasBeenRead: () => void;
  /** Stops counting the call. Idempotent. */
  readonly end: () => void;
}

/** Maximum number of concurrent calls of health and reflection. */
export const maxOpenCalls = 512;

/**
 * Share of the free calls of health and reflection that one network may use. The fewer are free, the fewer one
 * network may use, so that only a hundred networks together could use up all of them.
 */
const openShare = 1 / 32;

/** Share of the free calls of the reserve that one network may use for requests that have not been read. */
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
 * Limits the concurrent calls and the call rate of each caller. A call uses the limits of its network until
 * `authorize` has answered, then the limits of its caller.
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
  /** Open calls of each part of the reserve. */
  readonly #byPart = new Counts<ServerPart>();
  /** Calls in the reserve whose requests have not been read, by network. */
  readonly #unread = new Counts<string>();
  /** Open calls of health and reflection, in total and by network. */
  #openCalls = 0;
  readonly #openByNetwork = new Counts<string>();

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
  readonly admit: NonNullable<ListenOptions["onCall"]> = ({ path, peer, refused }: RouteCall) => {
    const service = serviceOf(path);
    if (isOpen(service)) {
      return this.#admitOpen(peer);
    }
    const pool = poolOf(path);
    const [most] = limits[pool];
    if (this.#open[pool] >= this.#settings[most]) {
      throw overloaded(
        `too many ${nouns[pool]}: expected at most ${this.#settings[most]} at a time; try again later (limit: ${most})`,
      );
    }
    const call: Admitted = {
      path,
      pool,
      isAccepted: !gated.has(service),
      hasEnded: false,
      credit: () => {},
      leaveParts: () => {},
      hasBeenRead: () => {},
      end: () => {
        if (call.hasEnded) {
          return;
        }
        call.hasEnded = true;
        call.hasBeenRead();
        this.#open[pool] -= 1;
        call.credit();
        call.leaveParts();
      },
    };
    const network = callerKey(undefined, peer);
    if (pool === "reserved" && network !== undefined) {
      call.hasBeenRead = this.#countUnread(network);
    }
    try {
      this.#charge(call, network, this.#open[pool]);
    } catch (error) {
      call.hasBeenRead();
      throw error;
    }
    this.#open[pool] += 1;
    this.#admitted.set(peer, call);
    return () => {
      call.end();
      // Also if the call ended before the gate, because its content type is unknown or its caller cancelled it.
      if (!call.isAccepted) {
        refused();
      }
    };
  };

  /**
   * Creates the `requestGate` of a service. It checks the caller of a call and applies the caller's limits before
   * the request is read. A caller that the check refuses uses the rate of its network. If `authorize` identifies the
   * caller, its calls of the registry and of the admin service have no limits per caller, and neither has any call of
   * an operator.
   */
  gate(checkCaller: CheckCaller): (call: HandlerContext) => Promise<void> {
    return async (context) => {
      const peer = peerOfCall(context.values);
      const call = this.#admitted.get(peer);
      try {
        await this.#check(context, checkCaller, peer);
        const caller = callerOf(context);
        const isOperator = caller?.roles.includes("operator") ?? false;
        // Many servers may share one credential, so only the reserve limits their calls of the registry.
        const isLimited =
          caller === undefined ||
          (!isOperator && context.service.typeName === FrontendService.typeName);
        const key = isLimited ? callerKey(caller, peer) : undefined;
        this.#spend(key);
        if (call?.hasEnded === false) {
          call.credit();
          this.#charge(call, key, this.#open[call.pool] - 1);
          if (!isOperator) {
            this.#enterParts(call);
          }
          call.isAccepted = true;
        }
      } catch (error) {
        // The caller may keep the call open for a while, because its request has not ended.
        call?.end();
        throw toConnectError(error);
      }
    };
  }

  /** Notes that the request of a call has been read. */
  readonly interceptor: Interceptor = (next) => async (request) => {
    this.#admitted.get(peerOfCall(request.contextValues))?.hasBeenRead();
    return await next(request);
  };

  async #check(context: HandlerContext, checkCaller: CheckCaller, peer: Peer): Promise<void> {
    try {
      await checkCaller(context);
    } catch (refusal) {
      this.#spend(callerKey(undefined, peer));
      throw refusal;
    }
  }

  #admitOpen(peer: Peer): () => void {
    const network = networkOf(peer.address);
    // Separate from the rate of agents and servers in the network, so that they do not stop health checks.
    this.#spend(`open ${network}`);
    const free = maxOpenCalls - this.#openCalls;
    const most = Math.ceil(free * openShare);
    if (this.#openByNetwork.of(network) >= most) {
      throw overloaded(
        `too many calls of health and reflection: expected at most ${most} from one address while ${free} of ${maxOpenCalls} are free; end some, or try again later`,
      );
    }
    this.#openCalls += 1;
    const uncount = this.#openByNetwork.add(network);
    return () => {
      this.#openCalls -= 1;
      uncount();
    };
  }

  /**
   * Keeps a few networks from filling the reserve with calls whose requests have not been read.
   *
   * @returns A function to call once the request has been read, or the call has ended. Idempotent.
   */
  #countUnread(network: string): () => void {
    const most = Math.ceil((this.#settings.reservedCalls - this.#open.reserved) * unreadShare);
    if (this.#unread.of(network) >= most) {
      throw overloaded(
        `too many calls of servers and operators with incomplete requests: expected at most ${most} from one address, an eighth of the free calls; send the rest of some requests first (limit: reservedCalls)`,
      );
    }
    return this.#unread.add(network);
  }

  /** @param others Number of other open calls in the call's pool. */
  #charge(call: Admitted, key: string | undefined, others: number): void {
    if (key === undefined) {
      return;
    }
    const [all, own] = limits[call.pool];
    const [total, perCaller] = [this.#settings[all], this.#settings[own]];
    const open = this.#byCaller[call.pool];
    const noun = nouns[call.pool];
    if (open.of(key) >= perCaller) {
      throw overloaded(
        `too many ${noun}: expected at most ${perCaller} of one caller at a time; end some first (limit: ${own})`,
      );
    }
    const free = total - others;
    const most = fairShare(perCaller, total, free);
    if (open.of(key) >= most) {
      throw overloaded(
        `too many ${noun}: expected at most ${most} of one caller while ${free} of ${total} are free; end some, or try again later (limit: ${all})`,
      );
    }
    call.credit = open.add(key);
  }

  #enterParts(call: Admitted): void {
    const { reservedCalls } = this.#settings;
    const parts = serverParts.filter((part) => part.has(call.path));
    for (const part of parts) {
      const most = part.most(reservedCalls);
      if (this.#byPart.of(part) >= most) {
        throw overloaded(
          `too many ${part.noun}: expected at most ${most} at a time, because the rest of ${reservedCalls} reserved calls is for other calls; try again later (limit: reservedCalls)`,
        );
      }
    }
    const left = parts.map((part) => this.#byPart.add(part));
    call.leaveParts = () => {
      for (const leave of left) {
        leave();
      }
    };
  }

  #spend(key: string | undefined): void {
    if (key !== undefined && !this.#rates.take(key)) {
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

/** The services whose calls pass a gate. */
const gated: ReadonlySet<string> = new Set(
  [FrontendService, RegistryService, AdminService].map(({ typeName }) => typeName),
);

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}

/** Returns true for a call of health or reflection. */
function isOpen(service: string): boolean {
  return service === Health.typeName || service.startsWith("grpc.reflection.");
}

function poolOf(path: string): Pool {
  const { typeName, method } = FrontendService;
  if (path === `/${typeName}/${method.watchTicket.name}`) {
    return "watches";
  }
  return path.startsWith(`/${typeName}/`) ? "calls" : "reserved";
}
