// SPDX-License-Identifier: Apache-2.0
import type { DescService } from "@bufbuild/protobuf";
import {
  type CallOptions,
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type OpenTls, parseAddress } from "@dm-env-rpc/transport";
import { fromCallError } from "@dm-env-rpc/transport/internal";
import { SurvivingSessions } from "./surviving-sessions.ts";

/** Who is called: matchmakers that share a store are one, and any of them will do. */
export interface CallersOptions {
  /** Addresses, `host:port`, `http://…` or `https://…`. */
  readonly matchmakers: string | readonly string[];
  /** For addresses with `https://`; with `cert` and `key` it also says who calls. */
  readonly tls?: OpenTls | undefined;
  /** Says who calls, where the matchmaker asks: sent as metadata `authorization: Bearer TOKEN`. */
  readonly token?: string | undefined;
  /**
   * How long a matchmaker may take to answer a call until the next one is asked, in milliseconds; a registration,
   * for which it looks whether the server can be reached, may take twice as long. Default 5,000.
   */
  readonly timeoutMs?: number | undefined;
  /** Calls over a transport of Connect's own making, instead of to `matchmakers`. */
  readonly transports?: readonly Transport[] | undefined;
}

const defaultTimeoutMs = 5_000;

/** One service at several addresses: a call goes to the one that answered last, and on to the next when it is gone. */
export class Callers<S extends DescService> {
  readonly #clients: readonly Client<S>[];
  readonly #names: readonly string[];
  /** How long a call may take. */
  readonly timeoutMs: number;
  #current = 0;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for a malformed address, or without one. */
  constructor(service: S, options: CallersOptions) {
    const { matchmakers, tls, token, transports, timeoutMs = defaultTimeoutMs } = options;
    this.timeoutMs = timeoutMs;
    this.#names = [matchmakers].flat();
    const made =
      transports ??
      this.#names.map((address) => {
        const { url, path } = parseAddress(address);
        if (path !== undefined) {
          throw new DmEnvRpcError(
            "INVALID_ARGUMENT",
            `a matchmaker cannot be called over a Unix domain socket: expected "host:port" or a URL, received ${JSON.stringify(address)}; give the matchmaker a port`,
            { origin: "client" },
          );
        }
        // A dead peer is found, and a stream that waits for long is not cut.
        const life = {
          pingIntervalMs: 10_000,
          pingTimeoutMs: timeoutMs,
          idleConnectionTimeoutMs: 60_000,
        };
        return createGrpcTransport({
          baseUrl: url,
          sessionManager: new SurvivingSessions(url, life, nodeTls(tls)),
          interceptors: token === undefined ? [] : [bearer(token)],
        });
      });
    this.#clients = made.map((transport) => createClient(service, transport));
    if (this.#clients.length === 0) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        "expected the address of a matchmaker, received none; give at least one",
        { origin: "client" },
      );
    }
  }

  /** How many there are to try. */
  get count(): number {
    return this.#clients.length;
  }

  /** The one to call. */
  get client(): Client<S> {
    return this.#clients[this.#current] as Client<S>;
  }

  /** What it is called. */
  get name(): string {
    return this.#names[this.#current] ?? "the matchmaker";
  }

  /** Goes on to the next, because this one did not answer. */
  next(): void {
    this.#current = (this.#current + 1) % this.#clients.length;
  }

  /** The options of a call that is given up when the signal aborts, or when it has taken too long. */
  options(signal?: AbortSignal): CallOptions {
    const { timeoutMs } = this;
    return signal === undefined ? { timeoutMs } : { timeoutMs, signal };
  }

  /**
   * Calls the matchmaker that answered last and, where it does not answer, the others, each once.
   *
   * @throws DmEnvRpcError of origin `server` when one refuses, `connection` when none answers.
   */
  async call<T>(run: (client: Client<S>, options: CallOptions) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run(this.client, this.options());
      } catch (error) {
        if (attempt >= this.count || !isPassing(error)) {
          throw fromCallError(error);
        }
        this.next();
      }
    }
  }
}

/** Whether the same call may be answered by another matchmaker, or at another time. */
export function isPassing(error: unknown): boolean {
  const { code, cause } = ConnectError.from(error);
  // A call whose connection is lost is told as cancelled; whoever cancels calls of its own knows that.
  return passing.has(code) || isLostSession(cause);
}

/** Milliseconds after which a matchmaker that had no room may be asked again; undefined for any other error. */
export function retryAfterMs(error: unknown): number | undefined {
  const { code, metadata } = ConnectError.from(error);
  const seconds = Number(metadata.get("retry-after") ?? Number.NaN);
  return code === Code.ResourceExhausted && seconds > 0 ? seconds * 1_000 : undefined;
}

/** Whether node:http2 itself gave up: Connect tells that as INTERNAL, though no matchmaker has said so. */
function isLostSession(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && String(cause.code).startsWith("ERR_HTTP2_");
}

const passing: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.Aborted,
  Code.Canceled,
  Code.DeadlineExceeded,
]);

function bearer(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
}

function nodeTls(tls: OpenTls | undefined): Record<string, unknown> {
  if (tls === undefined) {
    return {};
  }
  const { serverName, ...rest } = tls;
  return { ...rest, ...(serverName === undefined ? {} : { servername: serverName }) };
}
