// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import {
  later,
  networkTurnKey,
  type ThreadShare,
  type TimeSource,
} from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { isStepRefusal } from "../definition/refuse.ts";
import type { Cancel, LimitedCall, Outside, WorldEvent } from "./outside.ts";
import { publicMessageOf } from "./public-message.ts";
import type { Turnstile } from "./turnstile.ts";

/** Time limits of author calls, in milliseconds. */
export interface CallLimitsMs {
  readonly createMs: number;
  readonly joinMs: number;
  readonly resetMs: number;
  readonly stepMs: number;
}

const limitOf: Readonly<Record<LimitedCall, keyof CallLimitsMs>> = {
  create: "createMs",
  join: "joinMs",
  start: "resetMs",
  step: "stepMs",
  properties: "stepMs",
};

/** All worlds take turns with the networks of sessions as if they were one network. */
const worlds = networkTurnKey("worlds");

/** Options of AuthorCalls. */
export interface AuthorCallsOptions {
  /** Serializes the world's transitions; a pending call holds it. */
  readonly turnstile: Turnstile;
  readonly share: ThreadShare;
  readonly time: TimeSource;
  readonly limits: CallLimitsMs;
  readonly emit: (event: WorldEvent) => void;
  /** Receives the error of a transition, and the fault of a pending call. */
  readonly onFault: (fault: unknown) => void;
}

/** Author calls, timers and events of one world. */
export class AuthorCalls implements Outside {
  readonly #turnstile: Turnstile;
  readonly #share: ThreadShare;
  readonly #time: TimeSource;
  readonly #limits: CallLimitsMs;
  readonly #onFault: (fault: unknown) => void;
  readonly emit: (event: WorldEvent) => void;
  #abandon: (() => void) | undefined;

  constructor(options: AuthorCallsOptions) {
    this.#turnstile = options.turnstile;
    this.#share = options.share;
    this.#time = options.time;
    this.#limits = options.limits;
    this.#onFault = options.onFault;
    this.emit = options.emit;
  }

  /**
   * Runs a transition, now or after the transition in progress. An error that the transition throws
   * is the world's fault.
   */
  operate(transition: () => void): void {
    this.#turnstile.enter(() => this.guard(transition));
  }

  /** Runs part of a transition; an error that it throws is the world's fault. */
  guard(part: () => void): void {
    try {
      part();
    } catch (error) {
      this.#onFault(error);
    }
  }

  sync<T>(name: string, run: () => T): T {
    try {
      return atOnce(run());
    } catch (error) {
      throw new WorldFault(name, error);
    }
  }

  refusal(name: string, run: () => unknown): Error | undefined {
    try {
      atOnce(run());
      return undefined;
    } catch (error) {
      if (isRefusal(error)) {
        return error;
      }
      throw new WorldFault(name, error);
    }
  }

  call<T>(
    kind: LimitedCall,
    run: () => Awaitable<T>,
    then: (value: T) => void,
    refused?: (error: Error) => void,
    name: string = kind,
  ): boolean {
    let result: Awaitable<T>;
    try {
      result = run();
    } catch (error) {
      settleFailed(name, error, refused);
      return true;
    }
    if (isPromiseLike(result)) {
      this.#wait(limitOf[kind], name, result, then, refused);
      return false;
    }
    then(result);
    return true;
  }

  #wait<T>(
    limit: keyof CallLimitsMs,
    name: string,
    result: PromiseLike<T>,
    then: (value: T) => void,
    refused?: (error: Error) => void,
  ): void {
    this.#turnstile.hold();
    let settled = false;
    const settle = (finish: () => void): void => {
      if (settled) {
        return;
      }
      settled = true;
      this.#abandon = undefined;
      cancel();
      this.guard(finish);
      this.#turnstile.release();
    };
    const limitMs = this.#limits[limit];
    const cancel = this.#time.after(limitMs, () =>
      settle(() => settleFailed(name, new OverdueError(limit, limitMs), refused)),
    );
    this.#abandon = () => settle(() => {});
    result.then(
      (value) => settle(() => then(value)),
      (error: unknown) => settle(() => settleFailed(name, error, refused)),
    );
  }

  isTurnOver(): boolean {
    this.#share.count();
    return this.#share.isOver;
  }

  inLaterTurns(part: () => boolean): void {
    this.#turnstile.hold();
    const goOn = (): void => {
      let isDone = true;
      this.guard(() => {
        isDone = part();
      });
      if (isDone) {
        this.#turnstile.release();
      } else {
        this.#share.wait(worlds, goOn);
      }
    };
    this.#share.wait(worlds, goOn);
  }

  stop(): void {
    this.#abandon?.();
  }

  now(): number {
    return this.#time.now();
  }

  after(delayMs: number, transition: () => void): Cancel {
    return this.#later((run) => this.#time.after(delayMs, run), transition);
  }

  rest(transition: () => void): Cancel {
    return this.#later((run) => {
      later(run);
      return () => {};
    }, transition);
  }

  #later(begin: (run: () => void) => Cancel, transition: () => void): Cancel {
    let cancelled = false;
    const cancel = begin(() =>
      this.operate(() => {
        if (!cancelled) {
          transition();
        }
      }),
    );
    return () => {
      cancelled = true;
      cancel();
    };
  }
}

/** @throws WorldFault unless the failure is a refusal and `refused` is given. */
function settleFailed(name: string, error: unknown, refused?: (error: Error) => void): void {
  if (refused === undefined || !isRefusal(error)) {
    throw new WorldFault(name, error);
  }
  refused(error);
}

/**
 * Returns the result of an author's function that must be synchronous.
 *
 * @throws Error for a promise.
 */
export function atOnce<T>(result: T): T {
  const error = promised(result);
  if (error !== undefined) {
    throw error;
  }
  return result;
}

/**
 * Returns an error if the result is a promise, otherwise undefined. A rejection of the promise is
 * ignored.
 */
export function promised(result: unknown): Error | undefined {
  if (!isPromiseLike(result)) {
    return undefined;
  }
  result.then(undefined, () => {});
  return new Error(
    "expected a synchronous function, received a promise; only create, join, start, step, destroy, properties and extensions may return one",
  );
}

/** An author's function exceeded its limit. */
class OverdueError extends Error {
  override readonly name = "OverdueError";

  constructor(limit: string, limitMs: number) {
    super(`its promise did not settle within ${limitMs} ms (limit: ${limit})`);
  }
}

/** A failure of an author's function, with the function's name. */
export class WorldFault extends Error {
  override readonly name = "WorldFault";

  constructor(what: string, cause: unknown) {
    super(`"${what}" failed: ${publicMessageOf(cause)}`, { cause });
  }
}

/** Creates the error that agents receive when their world failed. */
export function worldFailure(worldName: string, fault: unknown): DmEnvRpcError {
  const first = fault instanceof AggregateError ? fault.errors[0] : fault;
  const overdue = first instanceof WorldFault && first.cause instanceof OverdueError;
  return new DmEnvRpcError(
    overdue ? "DEADLINE_EXCEEDED" : "INTERNAL",
    `the world "${worldName}" failed and is gone: ${publicMessageOf(fault)}; leave it, and create or join another`,
    { cause: fault },
  );
}

/**
 * Returns true if an error refuses a request; any other error is the world's fault. A DmEnvRpcError
 * refuses only if its origin is `server`: a world may itself be a client of another server, and
 * misuse or lose that connection.
 */
export function isRefusal(error: unknown): error is Error {
  const isAnswer = isDmEnvRpcError(error) && error.origin === "server";
  return isAnswer || isTensorError(error) || isStepRefusal(error);
}
