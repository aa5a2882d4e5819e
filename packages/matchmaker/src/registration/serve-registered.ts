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

/** What a registered server is served with: `serve({ worlds, ...hooks })`. */
export interface ServeHooks {
  /** Lets the matchmaker be an operator, and everybody else an agent. */
  readonly authorize: Registration["authorize"];
  /** Takes the seats of join tokens. */
  joinToken(token: string | undefined, worldName: string): Promise<Seat>;
  /** Reports what happens to worlds; call it from an `onEvent` of your own, where you have one. */
  onEvent(event: { readonly kind: string }): void;
}

/** A server that can be registered, as `serve` makes it. */
export interface RegistrableServer {
  readonly url: string;
  /** The worlds that there are now. */
  worlds(): readonly ServedWorld[];
  /** Drains it for `graceMs`, then ends it. */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** How a server is served and registered. */
export interface ServeRegisteredOptions
  extends Omit<RegistrationOptions, "address" | "worlds" | "joinTokens"> {
  /** Where the matchmaker and the agents reach the server. Default: its `url`. */
  readonly address?: string | undefined;
}

/** A server and its place at its matchmaker. */
export interface RegisteredServer<S extends RegistrableServer> extends AsyncDisposable {
  readonly server: S;
  readonly registration: Registration;
  /**
   * Asks for nobody more and closes the server, as its own `close` does: who leaves within `graceMs`, default 0, is
   * reported as having left. Then gives up the place, with the worlds that somebody is still in, and cuts off who is left.
   * Further calls share the first one's end, and can only bring it nearer.
   */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** What is reported at once. */
const news: ReadonlySet<string> = new Set([
  "world-created",
  "world-destroyed",
  "world-failed",
  "agent-joined",
  "agent-left",
]);
/** Sequences may be short: those that begin meanwhile are reported together. */
const sequencesMs = 1_000;
/** The server's own end, should giving up the place take so long after the grace. */
const lateMs = 5_000;
const maxTimerMs = 2 ** 31 - 1;

/**
 * Serves worlds that a matchmaker creates, for agents that it sends: nobody else gets in.
 *
 * @param serve Serves with the hooks that it is given: `(hooks) => serve({ worlds, ...hooks })`.
 * @throws DmEnvRpcError INVALID_ARGUMENT for a malformed address of a matchmaker.
 * @throws Error what `serve` throws.
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
    async joinToken(token, worldName) {
      if (registration !== undefined) {
        return await registration.seats.take(token, worldName);
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
  /** Worlds that ended with the server are reported without agents, so that it is told who has left them. */
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
      // Where no matchmaker answers, none sends anybody.
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
