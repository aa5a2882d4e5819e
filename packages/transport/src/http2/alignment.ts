// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

type Message = ProcessRequest | ProcessResponse | Malformed;

/** Largest alignment of any element, in bytes. */
const maxLead = 8;

/**
 * Learns at which offset an assembled message should start in its memory so that its tensors are views.
 *
 * A float tensor is a view only if its bytes are aligned; otherwise the codec copies it. The position of a
 * tensor depends on the message, but messages of one size on one stream mostly share a layout. So the
 * learner tries the eight offsets until no bytes are copied. If bytes are copied at every offset, it uses the offset
 * with the fewest copied bytes.
 */
export class AlignmentLearner {
  /** Bytes to leave free before the next message. */
  lead = 0;
  #size = -1;
  #tried = 0;
  #bestLead = 0;
  #bestCopied = Number.POSITIVE_INFINITY;

  /** Evaluates a decoded message of `size` bytes that started `lead` bytes into `memory`. */
  observe(message: Message, size: number, memory: ArrayBufferLike): void {
    if (size !== this.#size) {
      this.#size = size;
      this.#tried = 0;
      this.#bestCopied = Number.POSITIVE_INFINITY;
    }
    if (this.#tried >= maxLead) {
      return;
    }
    const copied = copiedBytes(message, memory);
    if (copied < this.#bestCopied) {
      this.#bestCopied = copied;
      this.#bestLead = this.lead;
    }
    this.#tried = copied === 0 ? maxLead : this.#tried + 1;
    this.lead = this.#tried >= maxLead ? this.#bestLead : (this.lead + 1) % maxLead;
  }
}

/** Returns the size of the float tensors that are copies instead of views, in bytes. */
function copiedBytes(message: Message, memory: ArrayBufferLike): number {
  if (message.case !== "step") {
    return 0;
  }
  const step = message.value;
  let copied = 0;
  for (const { tensor } of "actions" in step ? step.actions : step.observations) {
    if (
      tensor.dtype !== "unset" &&
      dtypes[tensor.dtype].kind === "float" &&
      ArrayBuffer.isView(tensor.data) &&
      tensor.data.buffer !== memory
    ) {
      copied += tensor.data.byteLength;
    }
  }
  return copied;
}
