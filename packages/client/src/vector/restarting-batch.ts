// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, dtypes, type Tensor } from "@dm-env-rpc/tensor-codec";
import { type BackoffOptions, backoffMs, toError } from "@dm-env-rpc/transport/internal";
import { allocateColumns, isTensor } from "../environment/batch/columns.ts";
import type {
  AutoresetMode,
  DynamicStacked,
  Stacked,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "../environment/vector.ts";
import { defaultMaxAttempts, pause } from "../stream/backoff.ts";
import { endsAgent } from "../stream/faults.ts";
import { type WaitOptions, waitFor } from "../stream/wait.ts";
import type { BatchFactory, VectorizeOptions } from "./vectorize-options.ts";

/** Options of a batch that is recreated. */
interface RestartingBatchOptions
  extends Pick<VectorizeOptions, "autoresetMode" | "buffers" | "restart" | "seed" | "signal"> {
  readonly server: number;
  readonly slots: readonly number[];
}

/**
 * A batch that is recreated when its stream or its world is lost, as a vector recreates its slots.
 */
export class RestartingBatch<Action, Observation>
  implements VectorEnvironment<Action, Observation>
{
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;
  readonly #make: (
    signal: AbortSignal,
  ) => ReturnType<BatchFactory<Action, Observation>["joinBatch"]>;
  readonly #restart: BackoffOptions | "never";
  readonly #closed = new AbortController();
  #batch: VectorEnvironment<Action, Observation>;
  /** Set while the batch is being recreated. */
  #recreation: Promise<VectorBatch<Observation>> | undefined;
  #last: VectorBatch<Observation> | undefined;
  #failure: Error | undefined;
  #closing: Promise<void> | undefined;

  /** Joins the slots as one batch. Resolves with undefined if the server or the options do not support batches. */
  static async make<Action, Observation>(
    factory: BatchFactory<Action, Observation>,
    options: RestartingBatchOptions,
  ): Promise<RestartingBatch<Action, Observation> | undefined> {
    const { server, slots, autoresetMode = "next-step", buffers = "fresh" } = options;
    const { seed, signal } = options;
    const make = (until: AbortSignal) =>
      factory.joinBatch({ server, slots, autoresetMode, buffers, seed, signal: until });
    const batch = await make(signal ?? new AbortController().signal);
    return batch && new RestartingBatch(batch, make, options.restart ?? {});
  }

  private constructor(
    batch: VectorEnvironment<Action, Observation>,
    make: (signal: AbortSignal) => ReturnType<BatchFactory<Action, Observation>["joinBatch"]>,
    restart: BackoffOptions | "never",
  ) {
    this.size = batch.size;
    this.batchSize = batch.batchSize;
    this.autoresetMode = batch.autoresetMode;
    this.#batch = batch;
    this.#make = make;
    this.#restart = restart;
  }

  /** True while the batch is being recreated; the next call waits until it has been. */
  get isRecreating(): boolean {
    return this.#recreation !== undefined;
  }

  /** Error of a batch that has failed permanently. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  reset(options?: VectorResetOptions): Promise<VectorBatch<Observation>> {
    return this.#call(options, () => this.#batch.reset(options));
  }

  step(
    actions: readonly Action[] | Action,
    options?: WaitOptions,
  ): Promise<VectorBatch<Observation>> {
    return this.#call(options, () => this.#batch.step(actions, options));
  }

  sendReset(ids?: readonly number[]): void {
    this.#refuseFailed();
    this.#batch.sendReset(ids);
  }

  send(actions: readonly Action[] | Action, ids?: readonly number[]): void {
    this.#refuseFailed();
    // While the batch is being recreated, `recv` waits for its first steps.
    if (this.#recreation === undefined) {
      this.#batch.send(actions, ids);
    }
  }

  recv(options?: WaitOptions): Promise<VectorBatch<Observation>> {
    return this.#call(options, () => this.#batch.recv(options));
  }

  async #call(
    options: WaitOptions | undefined,
    call: () => Promise<VectorBatch<Observation>>,
  ): Promise<VectorBatch<Observation>> {
    this.#refuseFailed();
    if (this.#recreation !== undefined) {
      const { signal, timeoutMs } = options ?? {};
      return await waitFor(this.#recreation, "recreating the batch", { signal, timeoutMs });
    }
    try {
      this.#last = await call();
      return this.#last;
    } catch (error) {
      if (this.#last === undefined || !endsAgent(error)) {
        throw error;
      }
      return this.#lost(toError(error), this.#last);
    }
  }

  #refuseFailed(): void {
    if (this.#failure !== undefined) {
      throw this.#failure;
    }
  }

  /** Returns a batch that reports the error in every row, and starts to recreate the batch. */
  #lost(error: Error, last: VectorBatch<Observation>): VectorBatch<Observation> {
    if (this.#restart === "never") {
      this.#failure = error;
    } else {
      const recreation = this.#recreate(this.#restart, error);
      recreation.catch(() => {}); // The next call reports the error.
      this.#recreation = recreation;
    }
    return absentRows(last, error);
  }

  async #recreate(restart: BackoffOptions, lost: Error): Promise<VectorBatch<Observation>> {
    const { signal } = this.#closed;
    await this.#batch.close();
    let failure = lost;
    const { maxAttempts = defaultMaxAttempts } = restart;
    for (let attempt = 1; attempt <= maxAttempts && !signal.aborted; attempt++) {
      try {
        await pause(backoffMs(attempt, restart), "recreating the batch", signal);
        const made = await this.#make(signal);
        if (made === undefined) {
          throw new DmEnvRpcError(
            "UNIMPLEMENTED",
            "the server no longer supports batches with these options",
            {
              origin: "client",
            },
          );
        }
        this.#batch = made;
        const first = await made.reset();
        this.#recreation = undefined;
        this.#last = first;
        return first;
      } catch (error) {
        failure = toError(error);
        await this.#batch.close();
      }
    }
    this.#recreation = undefined;
    this.#failure = failure;
    throw failure;
  }

  async leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void> {
    await this.#batch.leave(ids, options);
    if (ids.length > 0) {
      await this.close(options);
    }
  }

  close(options?: VectorCloseOptions): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  async #close(options: VectorCloseOptions | undefined): Promise<void> {
    this.#closed.abort();
    await this.#recreation?.catch(() => {});
    await this.#batch.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Returns a batch with the same slots and shapes, without valid rows.
 *
 * @param error The error of slots that failed in this step; null if they failed earlier.
 */
export function absentRows<Observation>(
  { ids, observation }: VectorBatch<Observation>,
  error: Error | null,
): VectorBatch<Observation> {
  const columns = allocateColumns(ids.length);
  columns.discount.fill(1);
  columns.truncated.fill(error === null ? 0 : 1);
  const nothing = (): null[] => ids.map(() => null);
  return {
    ids,
    observation: cleared(observation as DynamicStacked) as Stacked<Observation>,
    timeSteps: nothing(),
    ...columns,
    finalObservation: nothing(),
    finalInfo: nothing(),
    failures: ids.map(() => error),
    refusals: nothing(),
  };
}

function cleared(stack: DynamicStacked): DynamicStacked {
  return Object.fromEntries(
    Object.entries(stack).map(([name, value]) => {
      if (!isTensor(value)) {
        return [name, cleared(value)];
      }
      const { dtype, shape, data } = value;
      return [name, { dtype, shape, data: dtypes[dtype].allocate(data.length) } as Tensor];
    }),
  );
}
