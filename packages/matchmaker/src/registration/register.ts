// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { fromCallError, pause, systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import { Callers, type CallersOptions, isPassing } from "../callers.ts";
import { milliseconds } from "../durations.ts";
import { tokenVerifier } from "../tokens/verifier.ts";
import { createSeats, type Seats } from "./seats.ts";

/** A world that a server has. */
export interface ServedWorld {
  readonly name: string;
  readonly type: string;
  readonly agents: number;
  /** Agents that have ever joined. */
  readonly joins: number;
  /** Sequences that have begun. */
  readonly sequences: number;
  /** The server came with it, and nobody need create it. Default false. */
  readonly premade?: boolean | undefined;
}

/** What a registration has to say. */
export type RegistrationEvent =
  | { readonly kind: "registered"; readonly matchmaker: string }
  /** It is tried again. */
  | { readonly kind: "failed"; readonly matchmaker: string; readonly error: Error };

/** How a server registers. */
export interface RegistrationOptions extends CallersOptions {
  /** Where the matchmaker and the agents reach the server. */
  readonly address: string;
  readonly maxWorlds: number;
  readonly maxAgents: number;
  /** The kinds of world that can be created. */
  readonly worldTypes: readonly string[];
  /** The region that agents have latencies to. Default: none. */
  readonly region?: string | undefined;
  /** The worlds that there are now. */
  readonly worlds: () => readonly ServedWorld[];
  /** Whether nobody joins without a token, for which `seats` is asked. Default true. */
  readonly joinTokens?: boolean | undefined;
  /** Told how it goes. Must not throw. */
  readonly onEvent?: ((event: RegistrationEvent) => void) | undefined;
  /** Default: the machine's time. */
  readonly time?: TimeSource | undefined;
  /** Of this run of the process, and of no other. Default: a random UUID. */
  readonly serverId?: string | undefined;
}

/** A server's place at its matchmaker, which is held until it is closed. */
export interface Registration extends AsyncDisposable {
  readonly serverId: string;
  /** Resolves when the matchmaker has taken the server for the first time. */
  readonly registered: Promise<void>;
  /** The seats that join tokens are for. */
  readonly seats: Seats;
  /**
   * What a connection may do, for the `authorize` of `serve`: the matchmaker, by its token, is an operator;
   * everybody else is an agent, whose token is looked at when it joins.
   */
  authorize(peer: {
    readonly metadata: ReadonlyMap<string, string>;
  }): Promise<readonly ("agent" | "operator")[]>;
  /** Something about the worlds has changed: it is reported soon. */
  changed(): void;
  /** Asks for no more worlds; those that there are go on. */
  drain(): Promise<void>;
  /** Reports for the last time, then gives up the place, and with it the worlds. Idempotent. */
  close(): Promise<void>;
}

/** Between two reports; what changes meanwhile is reported together. */
const leastMs = 50;
const retryMs = 500;
/** Between two attempts of a server that is refused again and again. */
const maxRetryMs = 5_000;

/** The answers of a matchmaker that will not have the server, or not any more. */
const refused: ReadonlySet<Code> = new Set([
  Code.NotFound,
  Code.FailedPrecondition,
  Code.AlreadyExists,
]);

/** The token of a call's metadata. */
function bearerToken(metadata: ReadonlyMap<string, string>): string | undefined {
  return /^Bearer +(\S+)$/i.exec(metadata.get("authorization") ?? "")?.[1];
}

/**
 * Registers a server at its matchmaker and keeps it there: renews its lease, reports its worlds,
 * goes to another matchmaker when one is gone, and registers again, with its worlds, whenever its lease was lost.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a malformed address of a matchmaker.
 */
export function register(options: RegistrationOptions): Registration {
  const { time = systemTime, serverId = randomUUID(), onEvent = () => {} } = options;
  /** Known to this process and the matchmaker alone: nobody else can speak for this server. */
  const serverSecret = randomUUID();
  const callers = new Callers(RegistryService, options);
  const ended = new AbortController();
  let jwks: string | undefined;
  /** By how much the matchmaker's time is ahead of this machine's. */
  let aheadMs = 0;
  let leaseMs = 0;
  let epoch: bigint | undefined;
  /** Since when the lease has been held. */
  let sinceMs = 0;
  /** Refused in a row; a lease that was lost as soon as it was had counts. */
  let refusals = 0;
  /** Reports that were made. */
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
  const verifier = tokenVerifier({ serverId, address: options.address, jwks: () => jwks, now });
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
      ticketIds: [...seats.ticketsIn(name)],
      leftTicketIds: [...seats.leftFrom(name)],
    }));
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
      jwks = terms.jwks;
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
        joinTokens: options.joinTokens ?? true,
        worlds: reported,
        reportNumber: reports,
        serverSecret,
      },
      // The matchmaker looks for the server meanwhile, and says what it found.
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
      reportNumber: reports,
      serverSecret,
    };
    learn(await callers.client.renewServer(request, callers.options(ended.signal)));
    told(request.worlds);
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
        if (!refused.has(ConnectError.from(error).code)) {
          callers.next();
          await pause(time, retryMs, ended.signal);
          continue;
        }
        const wasHeld = epoch !== undefined && time.now() - sinceMs >= leaseMs;
        epoch = undefined;
        refusals = wasHeld ? 0 : refusals + 1;
        // A lease that is lost is asked for anew at once.
        if (wasHeld) {
          continue;
        }
        const backoffMs = Math.min(retryMs * 2 ** (refusals - 1), maxRetryMs);
        await pause(time, backoffMs, ended.signal);
        continue;
      }
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
    // Where nobody answers, the lease runs out.
    await callers
      .call(async (client, call) => {
        try {
          await client.renewServer(last, call);
        } catch (error) {
          // A lease that was lost takes no report; the place is given up all the same.
          if (isPassing(error)) {
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
    serverId,
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
