// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { systemTime } from "@dm-env-rpc/transport/internal";
import {
  type Registration,
  type RegistrationOptions,
  register,
  type ServedWorld,
} from "./register.ts";
import type { Seat } from "./seats.ts";

/** Hooks for `serve({ worlds, ...hooks })`. */
export interface ServeHooks {
  /** Grants the matchmaker the role of an operator, and all other clients the role of an agent. */
  readonly authorize: Registration["authorize"];
  /** Takes the seat that a join token reserves. */
  joinToken(token: string | undefined, worldName: string, seatKey?: string): Promise<Seat>;
  /** Reports an event of a world. If you set your own `onEvent`, call this hook from it. */
  onEvent(event: { readonly kind: string }): void;
}

/** A server that can be registered, as `serve` returns it. */
export interface RegistrableServer {
  readonly url: string;
  /** Returns the current worlds. */
  worlds(): readonly ServedWorld[];
  /** Drains the server for `graceMs`, then ends it. */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** Options of `serveRegistered`. */
export interface ServeRegisteredOptions
  extends Omit<RegistrationOptions, "address" | "worlds" | "joinTokens"> {
  /** Address of the server for the matchmaker and the agents. Default: its `url`. */
  readonly address?: string | undefined;
}

/** A server with its registration. */
export interface RegisteredServer<S extends RegistrableServer> extends AsyncDisposable {
  readonly server: S;
  readonly registration: Registration;
  /**
   * Closes the server, in two phases:
   *
   * 1. For `graceMs` (default 0), the server drains. The matchmaker places no more worlds on it, and agents
   *    that leave are reported.
   * 2. The server deregisters and cuts off the remaining agents. Their tickets wait again or fail, as for a
   *    lost server.
   *
   * Later calls may only shorten the grace period.
   */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** Kinds of event that cause an immediate report. */
const news: ReadonlySet<string> = new Set([
  "world-created",
  "world-destroyed",
  "world-failed",
  "agent-joined",
  "agent-left",
]);
/** Sequences that begin within this time are reported together, because short sequences would cause many reports. */
const sequencesMs = 1_000;
/** Time added to the grace period of `server.close`, so that the server deregisters before it cuts off streams. */
const lateMs = 5_000;
const maxTimerMs = 2 ** 31 - 1;

/**
 * Serves worlds that a matchmaker creates. Admits only agents that the matchmaker has assigned.
 *
 * @param serve Serves with the given hooks: `(hooks) => serve({ worlds, ...hooks })`.
 * @throws DmEnvRpcError INVALID_ARGUMENT if a matchmaker's address is malformed.
 * @throws Any error that `serve` throws.
 *
 * @example
 * const registered = await serveRegistered((hooks) => serve({ worlds: [world], ...hooks }), {
 *   matchmakers: ["localhost:8990"],
 *   worldTypes: ["gridworld"],
 *   maxWorlds: 100,
 *   maxAgents: 1_000,
 * });
 */
export async function serveRegistered<S extends RegistrableServer>(
  serve: (hooks: ServeHooks) => Promise<S>,
  options: ServeRegisteredOptions,
): Promise<RegisteredServer<S>> {
  const { time = systemTime } = options;
  let registration: Registration | undefined;
  let cancelReport: (() => void) | undefined;
  const server = await serve({
    authorize: async (peer) => (await registration?.authorize(peer)) ?? ["agent"],
    async joinToken(token, worldName, seatKey) {
      if (registration !== undefined) {
        return await registration.seats.take(token, worldName, seatKey);
      }
      throw new DmEnvRpcError("UNAVAILABLE", "this server is starting; try again");
    },
    onEvent: ({ kind }) => {
      if (news.has(kind)) {
        registration?.changed();
      }
      if (kind !== "sequence-started") {
        return;
      }
      cancelReport ??= time.after(sequencesMs, () => {
        cancelReport = undefined;
        registration?.changed();
      });
    },
  });
  let closingWorlds: readonly ServedWorld[] = [];
  /**
   * Returns the worlds that ended after the server began to close. Each is returned with 0 agents, so
   * that the matchmaker learns which agents left.
   */
  const endedWorlds = (): readonly ServedWorld[] => {
    const there = new Set(server.worlds().map(({ name }) => name));
    return closingWorlds
      .filter(({ name }) => !there.has(name))
      .map((world) => ({ ...world, agents: 0 }));
  };
  let registered: Registration;
  try {
    registered = register({
      ...options,
      address: options.address ?? server.url,
      worlds: () => [...server.worlds(), ...endedWorlds()],
    });
  } catch (error) {
    await server.close();
    throw error;
  }
  registration = registered;
  const graceIsOver = new AbortController();
  const end = async (graceMs: number): Promise<void> => {
    const grace = new Promise<void>((resolve) => {
      graceIsOver.signal.addEventListener("abort", () => resolve(), { once: true });
    });
    if (graceMs > 0) {
      // A failed drain is ignored: a matchmaker that does not answer assigns no agents either.
      await Promise.race([registered.drain().catch(() => {}), grace]);
      closingWorlds = server.worlds();
      const closed = server.close({ graceMs: Math.min(graceMs + lateMs, maxTimerMs) });
      await Promise.race([closed, grace]);
    }
    await registered.close();
    await server.close();
    cancelReport?.();
  };
  let closing: Promise<void> | undefined;
  const close = async ({ graceMs = 0 } = {}): Promise<void> => {
    closing ??= end(graceMs);
    const cancel = time.after(graceMs, () => graceIsOver.abort());
    try {
      await closing;
    } finally {
      cancel();
    }
  };
  return {
    server,
    registration: registered,
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}
