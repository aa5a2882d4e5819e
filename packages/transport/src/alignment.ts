// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

type Message = ProcessRequest | ProcessResponse | Malformed;

/** The largest alignment that a tensor's elements ask for. */
const maxLead = 8;

/**
 * Learns where a message that is put together should begin in its memory, so that the
 * tensors in it can be views.
 *
 * A tensor of wide elements is a view only where its bytes happen to be aligned; elsewhere
 * the codec copies it. Where in a message the tensors are depends on the message, but
 * messages of one size on one stream mostly look alike: so each beginning is tried until
 * nothing is copied, or the one is known that makes the copies smallest.
 */
export class AlignmentLearner {
  /** Bytes to leave free in front of the next message. */
  lead = 0;
  #size = -1;
  #tried = 0;
  #bestLead = 0;
  #bestCopied = Number.POSITIVE_INFINITY;

  /** Looks at what became of a message of `size` bytes that began `lead` bytes into `memory`. */
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

/** Bytes of the tensors that could have been views, but are not. */
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
