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
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type OpenTls, parseAddress } from "@dm-env-rpc/transport";
import { type BackoffOptions, backoffMs, fromCallError } from "@dm-env-rpc/transport/internal";
import { transportTo } from "#transport";

/**
 * Addresses and credentials of a service. Matchmakers that share a store are one service: any of
 * them can answer.
 */
export interface CallersOptions {
  /** Addresses of the matchmakers, as `host:port`, `http://…` or `https://…`. */
  readonly matchmakers: string | readonly string[];
  /**
   * TLS for addresses with `https://`; `cert` and `key` also identify the caller. Ignored in pages,
   * where the browser has the certificates.
   */
  readonly tls?: OpenTls | undefined;
  /**
   * Token that identifies the caller, if the matchmaker requires one. It is sent as metadata
   * `authorization: Bearer TOKEN`.
   */
  readonly token?: string | undefined;
  /**
   * Time limit of a call to one matchmaker, in milliseconds. When it has passed, the next matchmaker is
   * called. A registration may take twice as long, because the matchmaker calls the server back.
   * Default 5,000.
   */
  readonly timeoutMs?: number | undefined;
  /** Source of the jitter of retries, uniform in [0, 1). Default Math.random. */
  readonly random?: (() => number) | undefined;
  /** Connect transports to use instead of `matchmakers`. */
  readonly transports?: readonly Transport[] | undefined;
}

const defaultTimeoutMs = 5_000;

/**
 * One service at several addresses. Calls go to the matchmaker that answered last. If that matchmaker
 * is gone, calls go to the next one.
 */
export class Callers<S extends DescService> {
  readonly #clients: readonly Client<S>[];
  readonly #names: readonly string[];
  /** Time limit of a call. */
  readonly timeoutMs: number;
  #current = 0;

  /** @throws DmEnvRpcError INVALID_ARGUMENT if an address is malformed, or no address is given. */
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
        const interceptors = token === undefined ? [] : [bearer(token)];
        return transportTo(url, { timeoutMs, tls, interceptors });
      });
    this.#clients = made.map((transport) => createClient(service, transport));
    if (this.#clients.length === 0) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        "matchmakers: expected at least one address, received none; give the address of a matchmaker",
        { origin: "client" },
      );
    }
  }

  /** Number of addresses. */
  get count(): number {
    return this.#clients.length;
  }

  /** The current client. */
  get client(): Client<S> {
    return this.#clients[this.#current] as Client<S>;
  }

  /** The current address, for errors and events. */
  get name(): string {
    return this.#names[this.#current] ?? "the matchmaker";
  }

  /** Switches to the next address; for use when the current address does not answer. */
  next(): void {
    this.#current = (this.#current + 1) % this.#clients.length;
  }

  /**
   * Returns the options of a call that ends when the signal aborts or the time limit has passed.
   */
  options(signal?: AbortSignal): CallOptions {
    const { timeoutMs } = this;
    return signal === undefined ? { timeoutMs } : { timeoutMs, signal };
  }

  /**
   * Calls the matchmaker that answered last. If it does not answer, calls each other matchmaker once.
   *
   * @throws DmEnvRpcError of origin `server` if a matchmaker refuses the call.
   * @throws DmEnvRpcError of origin `connection` if no matchmaker answers.
   */
  async call<T>(run: (client: Client<S>, options: CallOptions) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run(this.client, this.options());
      } catch (error) {
        if (attempt >= this.count || !isTransient(error)) {
          throw fromCallError(error);
        }
        this.next();
      }
    }
  }
}

/** Returns true if the same call may succeed at another matchmaker, or later. */
export function isTransient(error: unknown): boolean {
  const { code, cause } = ConnectError.from(error);
  // If the connection of a call is lost, Connect reports the call as cancelled. A caller that can abort its
  // call must check its signal before it calls this function.
  return transientCodes.has(code) || isLostSession(cause);
}

/**
 * Returns the delay before a failed call is repeated, in ms. It is at least `retry-after`, if the error has it, and at
 * most twice that, unless `maxRetryAfterMs` is less. Otherwise it is the delay of `backoffMs`. Callers that were refused
 * at the same time thus call again at different times.
 *
 * @param failures Number of failures in a row.
 * @param options.maxRetryAfterMs Upper bound of a delay due to `retry-after`. Default: none.
 */
export function retryMs(
  error: unknown,
  failures: number,
  {
    maxRetryAfterMs = Number.POSITIVE_INFINITY,
    ...backoff
  }: BackoffOptions & { readonly maxRetryAfterMs?: number | undefined },
): number {
  const leastMs = retryAfterMs(error);
  return leastMs === undefined
    ? backoffMs(failures + 1, backoff)
    : backoffMs(2, { ...backoff, initialMs: 2 * leastMs, maxMs: maxRetryAfterMs });
}

/**
 * Returns the `retry-after` of a RESOURCE_EXHAUSTED error, in milliseconds; undefined for any other
 * error.
 */
export function retryAfterMs(error: unknown): number | undefined {
  const { code, metadata } = ConnectError.from(error);
  const seconds = Number(metadata.get("retry-after") ?? Number.NaN);
  return code === Code.ResourceExhausted && seconds > 0 ? seconds * 1_000 : undefined;
}

/**
 * Returns true if node:http2 itself failed. Connect reports this failure as INTERNAL, although no
 * matchmaker returned that code.
 */
function isLostSession(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && String(cause.code).startsWith("ERR_HTTP2_");
}

const transientCodes: ReadonlySet<Code> = new Set([
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
