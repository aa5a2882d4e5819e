// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import { backoffMs, pause, systemTime, toError } from "@dm-env-rpc/transport/internal";
import { dialRelay, type RelayPlace } from "@dm-env-rpc/transport/internal/relay";
import type { EnvironmentServer } from "./environment-server.ts";
import { limitsFrom, type ServerLimits } from "./limits.ts";

/** Events of a program's place at a relay. */
export type DialOutEvent =
  /** The place was taken: agents reach the program at `address`. */
  | { readonly kind: "relayed"; readonly program: string; readonly address: string }
  /** The place was lost, or an attempt to take it failed. Another attempt follows. */
  | { readonly kind: "relay-lost"; readonly error: DmEnvRpcError };

/** Options of `dialOut`. */
export interface DialOutOptions {
  /** Address of the relay: `ws://host:port` or `wss://host:port`. */
  readonly relay: string;
  /** Token that identifies the program, issued by the relay's operator. */
  readonly token: string;
  /**
   * Gives up the place, as `close` does. If it aborts before the relay grants the place, `dialOut`
   * rejects.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * The server's limits on messages, such as `maxMessageBytes` and `maxElements`. Other limits have
   * no effect.
   */
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Called when the place is taken and when it is lost. Must not throw. */
  readonly onEvent?: ((event: DialOutEvent) => void) | undefined;
}

/** A program at a relay. */
export interface DialedOut extends AsyncDisposable {
  /** The program's name at the relay. */
  readonly program: string;
  /**
   * Address at which agents reach the program, such as `http://relay.example.org:9001`. The relay
   * may choose another address after a restart.
   */
  readonly address: string;
  /** Gives up the place; agents lose their streams, as if the server had died. Idempotent. */
  close(): Promise<void>;
}

/** Codes for which the first dial is not retried. */
const final: ReadonlySet<string> = new Set([
  "INVALID_ARGUMENT",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "CANCELLED",
]);

/**
 * Serves worlds through a relay, to which this program dials out, so that it needs no port. Agents
 * dial the relay, and use the worlds as on any server. After a lost connection, the program dials
 * again with backoff.
 *
 * It runs in Node and in pages, over the platform's WebSocket.
 *
 * @returns The program's place, once the relay has granted it. Dialing is retried until the relay
 * answers.
 * @throws DmEnvRpcError INVALID_ARGUMENT for an invalid address, UNAUTHENTICATED for a wrong token,
 * PERMISSION_DENIED for a page of another origin, CANCELLED by the signal.
 * @throws RangeError if a limit is unknown or out of range.
 * @example
 * const server = createEnvironmentServer({ worlds: [world] });
 * const place = await dialOut(server, { relay: "wss://relay.example.org:8970", token });
 * console.log(`agents connect to ${place.address}`);
 */
export async function dialOut(
  server: Pick<EnvironmentServer, "accept" | "ready">,
  options: DialOutOptions,
): Promise<DialedOut> {
  const { relay, token, onEvent = () => {} } = options;
  const limits = limitsFrom(options.limits);
  const ended = new AbortController();
  const signal = AbortSignal.any([ended.signal, ...(options.signal ? [options.signal] : [])]);
  // `randomUUID` is not available in pages without TLS.
  const instance = crypto.getRandomValues(new Uint8Array(16));
  await server.ready;

  const dial = async (): Promise<RelayPlace> => {
    const place = await dialRelay(relay, {
      token,
      instance,
      signal,
      maxMessageBytes: limits.maxMessageBytes,
      codecs: {
        request: createRequestCodec({ ...limits, borrowScalars: true }),
        response: createResponseCodec(),
      },
      onStream: (stream) => server.accept(stream),
    });
    const leave = (): void =>
      place.close(new DmEnvRpcError("UNAVAILABLE", "the program gave up its place"));
    signal.addEventListener("abort", leave, { once: true });
    place.lost.then(() => signal.removeEventListener("abort", leave));
    onEvent({ kind: "relayed", program: place.program, address: place.address });
    return place;
  };
  /** Dials until the relay grants a place, an error is final, or the signal aborts. */
  const dialUntil = async (isFinal: (error: DmEnvRpcError) => boolean): Promise<RelayPlace> => {
    for (let attempt = 2; ; attempt += 1) {
      try {
        return await dial();
      } catch (thrown) {
        const error = isDmEnvRpcError(thrown)
          ? thrown
          : new DmEnvRpcError("INTERNAL", toError(thrown).message, { cause: thrown });
        if (signal.aborted || isFinal(error)) {
          throw error;
        }
        onEvent({ kind: "relay-lost", error });
      }
      await pause(systemTime, backoffMs(attempt), signal);
    }
  };
  let place = await dialUntil(({ code }) => final.has(code));
  const hold = async (): Promise<void> => {
    while (!signal.aborted) {
      const error = await place.lost;
      if (signal.aborted) {
        return;
      }
      onEvent({ kind: "relay-lost", error });
      await pause(systemTime, backoffMs(2), signal);
      try {
        place = await dialUntil(() => false);
      } catch {
        return; // The signal has aborted.
      }
    }
  };
  const holding = hold();
  const close = async (): Promise<void> => {
    ended.abort();
    await holding;
  };
  return {
    get program() {
      return place.program;
    },
    get address() {
      return place.address;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
