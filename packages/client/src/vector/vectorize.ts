// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Environment } from "../environment/environment.ts";
import type { VectorEnvironment } from "../environment/vector.ts";
import { type BatchPart, JoinedBatches } from "./joined-batches.ts";
import { limiter } from "./limiter.ts";
import { RestartingBatch } from "./restarting-batch.ts";
import { slotChecker, uncheckedSlots } from "./slot-checker.ts";
import { VectorState } from "./vector-state.ts";
import type {
  BatchFactory,
  SlotFactory,
  Unstacked,
  UnstackedOptions,
  VectorizeOptions,
} from "./vectorize-options.ts";

const defaultMaxConcurrency = 32;

/**
 * Combines environments into one vector: `size` environments of one factory, or one environment of
 * each factory. They must have the same actions and observations, of fixed shapes, unless `stack` is
 * false. Several slots may be agents of the same world.
 *
 * @throws the error of the first factory that fails, after closing the other environments.
 * @throws TensorError `spec` naming the slot that differs from the first.
 *
 * @example
 * const vector = await vectorize(64, remoteSlots("localhost:8980"));
 */
export function vectorize<Action, Observation>(
  size: number,
  factory: SlotFactory<Action, Observation>,
  options: UnstackedOptions,
): Promise<VectorEnvironment<Action, Observation, Unstacked>>;
export function vectorize<Action, Observation>(
  factories: readonly SlotFactory<Action, Observation>[],
  options: UnstackedOptions,
): Promise<VectorEnvironment<Action, Observation, Unstacked>>;
export function vectorize<Action, Observation>(
  size: number,
  factory: SlotFactory<Action, Observation>,
  options?: VectorizeOptions,
): Promise<VectorEnvironment<Action, Observation>>;
export function vectorize<Action, Observation>(
  factories: readonly SlotFactory<Action, Observation>[],
  options?: VectorizeOptions,
): Promise<VectorEnvironment<Action, Observation>>;
export async function vectorize<Action, Observation>(
  slots: number | readonly SlotFactory<Action, Observation>[],
  second?: SlotFactory<Action, Observation> | VectorizeOptions,
  third?: VectorizeOptions,
): Promise<VectorEnvironment<Action, Observation>> {
  const factories =
    typeof second === "function"
      ? Array.from({ length: typeof slots === "number" ? slots : 0 }, () => second)
      : typeof slots === "number"
        ? []
        : slots;
  const options = (typeof second === "function" ? third : second) ?? {};
  const { batchSize = factories.length } = options;
  if (factories.length === 0) {
    throw wrong("at least one slot", "none");
  }
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > factories.length) {
    throw wrong(`a batchSize from 1 to ${factories.length}`, `${batchSize}`);
  }

  if (
    typeof second === "function" &&
    isBatchFactory(second) &&
    isWhole(options, factories.length)
  ) {
    const vector = await joinBatches(second, factories.length, options);
    if (vector !== undefined) {
      return vector;
    }
  }

  const closed = new AbortController();
  const abort = (): void => closed.abort(options.signal?.reason);
  if (options.signal?.aborted === true) {
    abort();
  }
  options.signal?.addEventListener("abort", abort);
  const checker =
    options.stack === false ? uncheckedSlots() : slotChecker<Environment<Action, Observation>>();
  const state = new VectorState(factories, {
    autoresetMode: options.autoresetMode ?? "next-step",
    batchSize,
    buffers: options.buffers ?? "fresh",
    restart: options.restart ?? {},
    seed: options.seed,
    closed,
    limit: limiter(options.maxConcurrency ?? defaultMaxConcurrency),
    checker,
  });
  try {
    await state.make();
  } catch (error) {
    await state.close();
    throw error;
  } finally {
    options.signal?.removeEventListener("abort", abort);
  }
  return state;
}

/** Joins the slots of each server as a batch; undefined if a server or the options do not support batches. */
async function joinBatches<Action, Observation>(
  factory: BatchFactory<Action, Observation>,
  size: number,
  { autoresetMode, buffers, restart, seed, signal }: VectorizeOptions,
): Promise<VectorEnvironment<Action, Observation> | undefined> {
  const dealt = Array.from({ length: Math.min(factory.servers, size) }, (_, server) => ({
    server,
    slots: Array.from({ length: size }, (__, slot) => slot).filter(
      (slot) => slot % factory.servers === server,
    ),
  }));
  const made = await Promise.allSettled(
    dealt.map(async (part) => ({
      slots: part.slots,
      batch: await RestartingBatch.make(factory, {
        ...{ ...part, autoresetMode, buffers, restart, seed, signal },
      }),
    })),
  );
  const parts: BatchPart<Action, Observation>[] = [];
  for (const one of made) {
    if (one.status === "fulfilled" && one.value.batch !== undefined) {
      parts.push({ slots: one.value.slots, batch: one.value.batch });
    }
  }
  const [only] = parts;
  if (parts.length === dealt.length && only !== undefined) {
    const { batch } = only;
    return parts.length === 1
      ? batch
      : new JoinedBatches(parts, batch.autoresetMode, buffers === "reuse");
  }
  await Promise.all(parts.map(({ batch }) => batch.close()));
  const refused = made.find((one) => one.status === "rejected");
  if (refused !== undefined) {
    throw refused.reason;
  }
  return undefined;
}

function isBatchFactory<Action, Observation>(
  factory: SlotFactory<Action, Observation>,
): factory is BatchFactory<Action, Observation> {
  return "joinBatch" in factory;
}

/** Returns true if a batch supports all of the options. */
function isWhole({ batch, stack, batchSize }: VectorizeOptions, size: number): boolean {
  return batch !== false && stack !== false && (batchSize === undefined || batchSize === size);
}

function wrong(expected: string, received: string): DmEnvRpcError {
  return new DmEnvRpcError("INVALID_ARGUMENT", `expected ${expected}, received ${received}`, {
    origin: "client",
  });
}
