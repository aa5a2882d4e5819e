// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import { messageOf, type TimeSource } from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import type { CallLimits } from "../host/limits.ts";
import type { Turnstile } from "./turnstile.ts";

/** The functions of an author that may take their time. */
type LimitedCall = "create" | "join" | "start" | "step" | "properties";

/** The limit of each. */
const limitOf: Readonly<Record<LimitedCall, keyof CallLimits>> = {
  create: "createMs",
  join: "joinMs",
  start: "resetMs",
  step: "stepMs",
  properties: "stepMs",
};

/** How the code of a world's author is called: one call at a time, each with a limit, each able to fail. */
export class WorldCalls {
  readonly #turnstile: Turnstile;
  readonly #time: TimeSource;
  readonly #limits: CallLimits;
  readonly #fail: (error: unknown) => void;
  #abandon: (() => void) | undefined;

  /** @param fail Told of everything that goes wrong in an operation or a call. */
  constructor(
    turnstile: Turnstile,
    time: TimeSource,
    limits: CallLimits,
    fail: (error: unknown) => void,
  ) {
    this.#turnstile = turnstile;
    this.#time = time;
    this.#limits = limits;
    this.#fail = fail;
  }

  now(): number {
    return this.#time.now();
  }

  /** Runs an operation on the world when nothing else goes on in it. */
  operate(operation: () => void): void {
    this.#turnstile.enter(() => this.guard(operation));
  }

  /** Runs a part of an operation; what it throws is the end of the world. */
  guard(part: () => void): void {
    try {
      part();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Ends the world, because of what went wrong. */
  fail(error: unknown): void {
    this.#fail(error);
  }

  /** Calls an author's function that answers at once. */
  sync<T>(what: string, run: () => T): T {
    try {
      return atOnce(run());
    } catch (error) {
      throw new WorldFault(what, error);
    }
  }

  /** Calls an author's function that may refuse, by throwing a DmEnvRpcError or a TensorError, which is the result. */
  refusal(what: string, run: () => unknown): Error | undefined {
    try {
      atOnce(run());
      return undefined;
    } catch (error) {
      if (isRefusal(error)) return error;
      throw new WorldFault(what, error);
    }
  }

  /**
   * Calls an author's function that may take its time, within the limit. Other
   * operations wait for it.
   *
   * @param refused Told when the function throws a DmEnvRpcError or a TensorError;
   * without it those are faults like all others.
   * @param name What it is called in errors.
   */
  call<T>(
    what: LimitedCall,
    run: () => Awaitable<T>,
    then: (value: T) => void,
    refused?: (error: Error) => void,
    name: string = what,
  ): void {
    let result: Awaitable<T>;
    try {
      result = run();
    } catch (error) {
      this.#failed(name, error, refused);
      return;
    }
    if (isPromiseLike(result)) this.#wait(limitOf[what], name, result, then, refused);
    else then(result);
  }

  #failed(name: string, error: unknown, refused?: (error: Error) => void): void {
    if (refused !== undefined && isRefusal(error)) refused(error);
    else this.#fail(new WorldFault(name, error));
  }

  #wait<T>(
    limit: keyof CallLimits,
    name: string,
    result: PromiseLike<T>,
    then: (value: T) => void,
    refused?: (error: Error) => void,
  ): void {
    this.#turnstile.hold();
    let settled = false;
    const settle = (finish: () => void): void => {
      if (settled) return;
      settled = true;
      this.#abandon = undefined;
      cancel();
      this.guard(finish);
      this.#turnstile.release();
    };
    const limitMs = this.#limits[limit];
    const cancel = this.#time.after(limitMs, () =>
      settle(() => this.#failed(name, new OverdueError(limit, limitMs), refused)),
    );
    this.#abandon = () => settle(() => {});
    result.then(
      (value) => settle(() => then(value)),
      (error: unknown) => settle(() => this.#failed(name, error, refused)),
    );
  }

  /** Waits no longer for the call that is outstanding, because the world is gone. */
  stop(): void {
    this.#abandon?.();
  }

  /** Runs an operation `delayMs` from now; the result cancels it. */
  after(delayMs: number, operation: () => void): () => void {
    return this.#later((run) => this.#time.after(delayMs, run), operation);
  }

  /** Runs an operation when everything else that is due has been done; the result cancels it. */
  rest(operation: () => void): () => void {
    return this.#later((run) => {
      const immediate = setImmediate(run);
      return () => clearImmediate(immediate);
    }, operation);
  }

  #later(begin: (run: () => void) => () => void, operation: () => void): () => void {
    let cancelled = false;
    const cancel = begin(() =>
      this.operate(() => {
        if (!cancelled) operation();
      }),
    );
    return () => {
      cancelled = true;
      cancel();
    };
  }
}

/** What a function returned that must answer at once. @throws Error for a promise. */
export function atOnce<T>(result: T): T {
  const error = promised(result);
  if (error !== undefined) throw error;
  return result;
}

/** What is wrong with a promise where none may be. It is not waited for: nobody could be told in time how it ends. */
export function promised(result: unknown): Error | undefined {
  if (!isPromiseLike(result)) return undefined;
  result.then(undefined, () => {});
  return new Error(
    "expected it to be done when it returns, received a promise; only create, join, start, step, destroy, properties and extensions may take their time",
  );
}

/** An author's function took too long. */
class OverdueError extends Error {
  override readonly name = "OverdueError";

  constructor(limit: string, limitMs: number) {
    super(`its promise did not settle within ${limitMs} ms (limit: ${limit})`);
  }
}

/** What went wrong in an author's function, and in which. */
export class WorldFault extends Error {
  override readonly name = "WorldFault";

  constructor(what: string, cause: unknown) {
    super(`"${what}" failed: ${messageOf(cause)}`, { cause });
  }
}

/** The error that agents get when their world failed. */
export function worldFailure(worldName: string, fault: unknown): DmEnvRpcError {
  const first = fault instanceof AggregateError ? fault.errors[0] : fault;
  const overdue = first instanceof WorldFault && first.cause instanceof OverdueError;
  return new DmEnvRpcError(
    overdue ? "DEADLINE_EXCEEDED" : "INTERNAL",
    `the world "${worldName}" failed and is gone: ${messageOf(fault)}; leave it, and create or join another`,
    { cause: fault },
  );
}

/** Whether an error says that the one who asked is wrong, and not the world. */
export function isRefusal(error: unknown): error is Error {
  return isDmEnvRpcError(error) || isTensorError(error);
}
