// SPDX-License-Identifier: Apache-2.0
import type { DynamicAction, DynamicObservation } from "@dm-env-rpc/client";
import {
  type DynamicStacked,
  remoteSlots,
  type VectorBatch,
  type VectorEnvironment,
  type VectorizeOptions,
  vectorize,
} from "@dm-env-rpc/client/vector";
import type { Tensor } from "@dm-env-rpc/tensor-codec";
import type { Load } from "../loads/load.ts";
import { moveAt, type Peer, type Turn } from "../peers/peer.ts";
import { joinOptions, served } from "./served.ts";

type Vector = VectorEnvironment<DynamicAction, DynamicObservation>;
type Batch = VectorBatch<DynamicObservation>;

/** As many slots as steps are in flight, all of them stepped at once; each batch has arrays of its own. */
export const vectorSteps: Peer = stepping({});

/** The same vector, where each batch overwrites the last. */
export const vectorReuses: Peer = stepping({ buffers: "reuse" });

/** The same slots, of which `recv` returns the half that is ready first. */
export const vectorSends: Peer = {
  serve: served,
  async connect(load, port, count) {
    const vector = await makeVector(load, port, count, { batchSize: Math.ceil(count / 2) });
    const ticks = new Array<number>(count).fill(0);
    let open = 0;
    const receive = async (): Promise<Batch> => {
      const batch = await vector.recv();
      open -= batch.ids.length;
      return batch;
    };
    const send = (ids: readonly number[]): void => {
      vector.send(
        ids.map((id) => ({ move: moveAt(ticks[id] ?? 0) })),
        ids,
      );
      open += ids.length;
    };
    const check = (batch: Batch): void => {
      for (const [row, id] of batch.ids.entries()) {
        ticks[id] = (ticks[id] ?? 0) + 1;
        checkRow(load, ticks[id], batch, row);
      }
    };
    await vector.reset();
    return {
      async play({ until, latencies }: Turn) {
        let steps = 0;
        send(ticks.map((_, id) => id));
        for (let now = performance.now(); open > 0; ) {
          const batch = await receive();
          check(batch);
          steps += batch.ids.length;
          const then = now;
          now = performance.now();
          latencies.record((now - then) * 1000);
          if (now < until) {
            send(batch.ids);
          }
        }
        return steps;
      },
      close: () => vector.close(),
    };
  },
};

function stepping(options: VectorizeOptions): Peer {
  return {
    serve: served,
    async connect(load, port, count) {
      const vector = await makeVector(load, port, count, options);
      await vector.reset();
      let tick = 0;
      return {
        async play({ until, latencies }: Turn) {
          const before = tick;
          for (let now = performance.now(); now < until; ) {
            const actions = Array.from({ length: count }, () => ({ move: moveAt(tick) }));
            const batch = await vector.step(actions);
            tick += 1;
            for (let row = 0; row < count; row++) {
              checkRow(load, tick, batch, row);
            }
            const then = now;
            now = performance.now();
            latencies.record((now - then) * 1000);
          }
          return (tick - before) * count;
        },
        close: () => vector.close(),
      };
    },
  };
}

async function makeVector(
  load: Load,
  port: number,
  count: number,
  options: VectorizeOptions,
): Promise<Vector> {
  const slots = remoteSlots(`127.0.0.1:${port}`, joinOptions(load));
  return await vectorize(count, slots, { ...options, batch: false, restart: "never" });
}

/** @throws Error if a row is not what the load shows at a tick. */
function checkRow(load: Load, tick: number, batch: Batch, row: number): void {
  const { data, shape } = tensorOf(batch.observation["board"]);
  const size = data.length / (shape[0] ?? 1);
  const observation = { board: { data: data.subarray(row * size, (row + 1) * size) } };
  const reward = batch.reward[row] ?? null;
  load.check(tick, { reward, discount: batch.discount[row] ?? null, observation });
}

function tensorOf(value: Tensor | DynamicStacked | undefined): Tensor<"uint8"> {
  if (value !== undefined && value["dtype"] === "uint8") {
    return value as Tensor<"uint8">;
  }
  throw new Error("expected a stacked uint8 tensor");
}
