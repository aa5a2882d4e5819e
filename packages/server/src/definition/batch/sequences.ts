// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { SlotActions } from "./actions.ts";
import type { AutoresetMode } from "./request.ts";

/** Tracks which slots of a batch are in a sequence. */
export class Sequences {
  /** 1 for each slot that is not in a sequence. */
  readonly over: Uint8Array;
  readonly autoreset: AutoresetMode;

  constructor(size: number, autoreset: AutoresetMode) {
    this.over = new Uint8Array(size).fill(1);
    this.autoreset = autoreset;
  }

  /** Returns true if a slot begins a sequence in a step, and so does not act. */
  begins(slot: number, { mask, isResetAlone }: SlotActions): boolean {
    return mask?.[slot] === 1 || (!isResetAlone && this.over[slot] === 1);
  }

  /** @throws DmEnvRpcError FAILED_PRECONDITION naming slots that would act after their end. */
  check({ mask, isResetAlone }: SlotActions): void {
    if (isResetAlone || this.autoreset !== "disabled") {
      return;
    }
    const ended: number[] = [];
    for (let slot = 0; slot < this.over.length; slot++) {
      if (this.over[slot] === 1 && mask?.[slot] !== 1) {
        ended.push(slot);
      }
    }
    if (ended.length === 0) {
      return;
    }
    const named = ended.slice(0, 16).join(", ") + (ended.length > 16 ? ", …" : "");
    throw new DmEnvRpcError(
      "FAILED_PRECONDITION",
      `cannot step slots whose sequence has ended: ${named}; name them in "reset_mask", or join with another "autoreset"`,
    );
  }
}
