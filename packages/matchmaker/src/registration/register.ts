// SPDX-License-Identifier: Apache-2.0
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import {
  fromCallError,
  pause,
  systemTime,
  type TimeSource,
  toError,
} from "@dm-env-rpc/transport/internal";
import { Callers, type CallersOptions, isTransient, retryMs } from "../calls/callers.ts";
import { isTakenId } from "../errors/taken-id.ts";
import { milliseconds } from "../model/durations.ts";
import { PublicKeys } from "../tokens/public-keys.ts";
import { tokenVerifier } from "../tokens/verifier.ts";
import { eventLoopMeter } from "./load-meter.ts";
import { createSeats, type Seats } from "./seats.ts";

/** A world of a server. */
export interface ServedWorld {
  readonly name: string;
  readonly type: string;
  readonly agents: number;
  /** Number of agents that ever joined. */
  readonly joins: number;
  /** Number of sequences that began. */
  readonly sequences: number;
  /** True if the server started with the world, and no matchmaker created the world. Default false. */
  readonly premade?: boolean | undefined;
}

/** Events of a registration. */
export type RegistrationEvent =
  | { readonly kind: "registered"; readonly matchmaker: string }
  /** A call to the matchmaker failed. The registration is retried. */
  | { readonly kind: "failed"; readonly matchmaker: string; readonly error: Error }
  /** `load` threw, or did not return a number from 0 to 1. Reports have no load until it returns such a number. */
  | { readonly kind: "load-failed"; readonly error: Error };

/** Options of `register`. */
export interface RegistrationOptions extends CallersOptions {
  /** Address at which the matchmaker and the agents reach the server. */
  readonly address: string;
  readonly maxWorlds: number;
  readonly maxAgents: number;
  /** Types of world that can be created. */
  readonly worldTypes: readonly string[];
  /** Region of the server. Agents state their latencies to regions. Default: none. */
  readonly region?: string | undefined;
  /**
   * Labels of the server. Profiles select servers by labels, and an allocator finds the server by its labels.
   * The syntax is that of Kubernetes. Default: none.
   */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /**
   * Returns the load of the server, from 0 for idle to 1 for fully used. Profiles may spread worlds by load.
   * Default: the share of time in which the event loop of this process was busy; in pages, no load.
   */
  readonly load?: (() => number) | undefined;
  /** Returns the current worlds. */
  readonly worlds: () => readonly ServedWorld[];
  /** True if agents need a join token. `seats` checks the tokens. Default true. */
  readonly joinTokens?: boolean | undefined;
  /** Receives events. Must not throw. */
  readonly onEvent?: ((event: RegistrationEvent) => void) | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
  /**
   * Id that is unique to this run of the process. Default: a random UUID, and another one if the matchmaker lost the
   * server and then registered another process with its id.
   */
  readonly serverId?: string | undefined;
}

/** A server's registration at its matchmaker. */
export interface Registration extends AsyncDisposable {
  /** The current id. */
  readonly serverId: string;
  /** Resolves when the matchmaker has accepted the server for the first time. */
  readonly registered: Promise<void>;
  /** Takes and releases the seats that join tokens reserve. */
  readonly seats: Seats;
  /**
   * Returns the roles of a connection, for the `authorize` of `serve`. A matchmaker that presents its token
   * is an operator. All other clients are agents. Their join tokens are checked when they join.
   */
  authorize(peer: {
    readonly metadata: ReadonlyMap<string, string>;
  }): Promise<readonly ("agent" | "operator")[]>;
  /** Reports the worlds immediately, or 50 ms after the last report if that is later. */
  changed(): void;
  /** Asks the matchmaker to place no more worlds on the server. The current worlds continue. */
  drain(): Promise<void>;
  /** Sends a last report, then deregisters. The server's worlds then count as ended. Idempotent. */
  close(): Promise<void>;
}

/** Least time between two reports. Changes during this time are reported together. */
const leastMs = 50;
/** Upper bound of the first delay after a failed call; it doubles with each further failure in a row. */
const initialMs = 500;
/** Longest delay after a refusal without `retry-after`. */
const maxRefusedMs = 5_000;
/** Longest delay before the next matchmaker is called. */
const maxUnansweredMs = 2_000;
/** Share of a lease that one delay takes at most while the lease is held, so that several attempts fit in the lease. */
const delayShare = 1 / 6;

/** Maximum number of earlier ids whose join tokens are valid. */
const maxEarlierIds = 8;

/** Codes with which a matchmaker refuses to register a server, or to renew its lease. */
const refused: ReadonlySet<Code> = new Set([
  Code.NotFound,
  Code.FailedPrecondition,
  Code.AlreadyExists,
]);

/** Returns the bearer token in a call's metadata. */
function bearerToken(metadata: ReadonlyMap<string, string>): string | undefined {
  return /^Bearer +(\S+)$/i.exec(metadata.get("authorization") ?? "")?.[1];
}

/**
 * Registers a server at its matchmaker and keeps it registered:
 *
 * - renews the server's lease, and reports the server's worlds;
 * - calls the next matchmaker if the current one does not answer;
 * - registers the server again, with its worlds, if the lease is lost.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if a matchmaker's address is malformed.
 */
export function register(options: RegistrationOptions): Registration {
  const { time = systemTime, random = Math.random, onEvent = () => {} } = options;
  let serverId = options.serverId ?? crypto.randomUUID();
  /** Ids that other processes have taken, the latest one first. */
  let earlierIds: readonly string[] = [];
  /** Only this process and the matchmaker know the secret. So no other process can act as this server. */
  const serverSecret = crypto.randomUUID();
  const usesTokens = options.joinTokens ?? true;
  const callers = new Callers(RegistryService, options);
  const ended = new AbortController();
  const keys = new PublicKeys();
  /** Offset of the matchmaker's clock from this machine's. */
  let aheadMs = 0;
  let leaseMs = 0;
  let epoch: bigint | undefined;
  /** Time at which the current lease was granted. */
  let sinceMs = 0;
  /** Consecutive refusals. A lease that is lost earlier than `leaseMs` after it was granted counts as a refusal. */
  let refusals = 0;
  /** Consecutive calls that no matchmaker has answered, or that failed for lack of room. */
  let failures = 0;
  /** Number of reports so far. */
  let reports = 0n;
  let isDraining = false;
  let isDue = false;
  let wake = (): void => {};
  let taken = (): void => {};
  const registered = new Promise<void>((resolve) => {
    taken = resolve;
  });
  const now = (): number => time.now() + aheadMs;
  const changed = (): void => {
    isDue = true;
    wake();
  };
  const verifier = tokenVerifier({
    serverId: () => serverId,
    earlierIds: () => earlierIds,
    address: options.address,
    jwks: () => keys.current,
    earlierKeys: () => keys.earlier,
    now,
  });
  const seats = createSeats(verifier, now, changed);

  const worlds = () => {
    const served = options.worlds();
    seats.keep(new Set(served.map(({ name }) => name)));
    return served.map(({ name, type, agents, joins, sequences, premade = false }) => ({
      name,
      type,
      agents,
      joins,
      sequences,
      premade,
      // An agent that is joining has already taken its seat, but `agents` does not count it yet.
      guests: usesTokens ? Math.max(0, agents - seats.agentsIn(name)) : undefined,
      ticketIds: [...seats.ticketsIn(name)],
      leftTicketIds: [...seats.leftFrom(name)],
    }));
  };
  const measure = options.load ?? eventLoopMeter(time);
  let hasLoadFailed = false;
  const load = (): number | undefined => {
    try {
      const measured = measure();
      if (measured !== undefined && !(measured >= 0 && measured <= 1)) {
        throw new RangeError(`load: expected a number from 0 to 1, received ${String(measured)}`);
      }
      hasLoadFailed = false;
      return measured;
    } catch (error) {
      if (!hasLoadFailed) {
        hasLoadFailed = true;
        onEvent({ kind: "load-failed", error: toError(error) });
      }
      return undefined;
    }
  };
  const told = (reported: ReturnType<typeof worlds>): void => {
    for (const { name, leftTicketIds } of reported) {
      seats.told(name, leftTicketIds);
    }
  };
  const learn = (terms: Terms): void => {
    if (terms.serverTime !== undefined) {
      aheadMs = timestampMs(terms.serverTime) - time.now();
    }
    leaseMs = milliseconds(terms.lease) ?? leaseMs;
    if (terms.jwks !== "") {
      keys.learn(terms.jwks, now());
    }
  };

  const enroll = async (): Promise<void> => {
    const reported = worlds();
    reports += 1n;
    const answer = await callers.client.registerServer(
      {
        serverId,
        address: options.address,
        capacity: { maxWorlds: options.maxWorlds, maxAgents: options.maxAgents },
        worldTypes: [...options.worldTypes],
        region: options.region ?? "",
        labels: { ...options.labels },
        load: load(),
        joinTokens: usesTokens,
        worlds: reported,
        reportNumber: reports,
        serverSecret,
      },
      // The matchmaker calls the server back before it answers.
      { timeoutMs: 2 * callers.timeoutMs, signal: ended.signal },
    );
    learn(answer);
    told(reported);
    if (isDraining) {
      await callers.client.drainServer({ serverId, serverSecret }, callers.options(ended.signal));
    }
    epoch = answer.epoch;
    sinceMs = time.now();
    onEvent({ kind: "registered", matchmaker: callers.name });
    taken();
  };
  const renew = async (current: bigint): Promise<void> => {
    reports += 1n;
    const request = {
      serverId,
      epoch: current,
      worlds: worlds(),
      load: load(),
      reportNumber: reports,
      serverSecret,
    };
    learn(await callers.client.renewServer(request, callers.options(ended.signal)));
    told(request.worlds);
  };

  /** Returns the delays before the next matchmaker is called. */
  const unanswered = () => {
    if (epoch === undefined) {
      return { initialMs, maxMs: maxUnansweredMs, random };
    }
    // The lease would expire while the server waits for a long `retry-after`.
    const mostMs = Math.max(leastMs, Math.min(maxUnansweredMs, leaseMs * delayShare));
    return { initialMs, maxMs: mostMs, maxRetryAfterMs: mostMs, random };
  };

  const hold = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      isDue = false;
      try {
        if (epoch === undefined) {
          await enroll();
        } else {
          await renew(epoch);
        }
      } catch (error) {
        if (ended.signal.aborted) {
          break;
        }
        onEvent({ kind: "failed", matchmaker: callers.name, error: fromCallError(error) });
        const isTaken = isTakenId(error);
        if (isTaken && options.serverId === undefined) {
          earlierIds = [serverId, ...earlierIds].slice(0, maxEarlierIds);
          serverId = crypto.randomUUID();
        }
        if (!isTaken && !refused.has(ConnectError.from(error).code)) {
          callers.next();
          failures += 1;
          await pause(time, retryMs(error, failures, unanswered()), ended.signal);
          continue;
        }
        failures = 0;
        const wasHeld = epoch !== undefined && time.now() - sinceMs >= leaseMs;
        epoch = undefined;
        refusals = wasHeld ? 0 : refusals + 1;
        // A lost lease is requested again immediately.
        if (wasHeld) {
          continue;
        }
        const delay = { initialMs, maxMs: maxRefusedMs, random };
        await pause(time, retryMs(error, refusals, delay), ended.signal);
        continue;
      }
      failures = 0;
      await pause(time, leastMs, ended.signal);
      if (isDue || ended.signal.aborted) {
        continue;
      }
      const nap = new AbortController();
      wake = () => nap.abort();
      await pause(time, leaseMs / 3, AbortSignal.any([nap.signal, ended.signal]));
      wake = () => {};
    }
  };
  const holding = hold();

  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    ended.abort();
    await holding;
    if (epoch === undefined) {
      return;
    }
    const last = { serverId, epoch, worlds: worlds(), reportNumber: reports + 1n, serverSecret };
    // If no matchmaker answers, the lease expires.
    await callers
      .call(async (client, call) => {
        try {
          await client.renewServer(last, call);
        } catch (error) {
          // If the lease is lost, no report is accepted. The server deregisters anyway.
          if (isTransient(error)) {
            throw error;
          }
        }
        await client.deregisterServer({ serverId, serverSecret }, call);
      })
      .catch(() => {});
  };
  const closeOnce = (): Promise<void> => {
    closing ??= close();
    return closing;
  };
  return {
    get serverId() {
      return serverId;
    },
    registered,
    seats,
    async authorize({ metadata }) {
      const token = bearerToken(metadata);
      if (token === undefined) {
        return ["agent"];
      }
      try {
        await verifier.operator(token);
        return ["operator"];
      } catch {
        return ["agent"];
      }
    },
    changed,
    async drain() {
      isDraining = true;
      if (epoch === undefined) {
        return;
      }
      await callers.call((client, call) => client.drainServer({ serverId, serverSecret }, call));
    },
    close: closeOnce,
    [Symbol.asyncDispose]: closeOnce,
  };
}

interface Terms {
  readonly serverTime?: Parameters<typeof timestampMs>[0] | undefined;
  readonly lease?: Parameters<typeof milliseconds>[0] | undefined;
  readonly jwks: string;
}
