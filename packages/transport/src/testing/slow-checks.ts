// SPDX-License-Identifier: Apache-2.0
import { createArrivingRequestCodec } from "@dm-env-rpc/tensor-codec/wire";
import { onTestFinished } from "vitest";
import { defaultCodecs } from "../stream/call-codecs.ts";

/** Codecs whose checks of large requests take longer than the time that these have in a turn. */
export function slowChecks() {
  const codecs = { ...defaultCodecs(), request: createArrivingRequestCodec() };
  const { arriving } = codecs.request;
  let turn = 0;
  let bytes = 0;
  /** Number of checked parts, by turn. */
  const partsIn: number[] = [];
  let isOver = false;
  const nextTurn = (): void => {
    turn += 1;
    if (!isOver) {
      setImmediate(nextTurn);
    }
  };
  setImmediate(nextTurn);
  onTestFinished(() => {
    isOver = true;
  });
  return {
    codecs: {
      ...codecs,
      request: {
        ...codecs.request,
        arriving(size: number) {
          const message = arriving?.(size);
          return {
            add(source: Uint8Array, start: number, end: number) {
              partsIn[turn] = (partsIn[turn] ?? 0) + 1;
              bytes += end - start;
              const untilMs = performance.now() + 3;
              while (performance.now() < untilMs) {
                // Busy.
              }
              return message?.add(source, start, end);
            },
          };
        },
      },
    },
    bytes: () => bytes,
    /** The turns of this count and those of the listener do not begin at the same time. */
    mostInTurn: () => Math.max(...partsIn.filter((parts) => parts > 0)),
  };
}
