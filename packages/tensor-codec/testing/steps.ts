// SPDX-License-Identifier: Apache-2.0
import type {
  EnvironmentRequest,
  EnvironmentResponse,
  Tensor as TensorMessage,
} from "@dm-env-rpc/protocol";
import { unpackTensor } from "../src/proto/tensors.ts";
import type { MessageCodec, ProcessRequest, ProcessResponse } from "../src/wire/messages.ts";
import type { Uid } from "../src/wire/primitives/uid.ts";
import type { UidTensor } from "../src/wire/steps/step.ts";
import { valuesOf } from "./bits.ts";

/** Encodes a message at an offset. */
export function encode<T>(codec: MessageCodec<T>, message: T): Uint8Array {
  const size = codec.size(message);
  const bytes = new Uint8Array(size + 6);
  const end = codec.write(message, bytes, 3);
  if (end !== size + 3) {
    throw new Error(`expected ${size} measured bytes, received ${end - 3}`);
  }
  if (bytes.subarray(end).some((byte) => byte !== 0)) {
    throw new Error("wrote past the end");
  }
  return bytes.slice(3, end);
}

/** Converts a message of the generated code to the same comparable form as `comparableOf`. */
export function comparableOfGenerated(
  payload: EnvironmentRequest["payload"] | EnvironmentResponse["payload"],
): unknown {
  if (payload.case !== "step") {
    return payload;
  }
  const { value } = payload;
  return "actions" in value
    ? {
        case: "step",
        actions: mapOf(Object.entries(value.actions)),
        requestedObservations: value.requestedObservations,
      }
    : { case: "step", state: value.state, observations: mapOf(Object.entries(value.observations)) };
}

/** Converts a decoded message to a comparable form: UIDs as text, all NaNs the same. */
export function comparableOf(message: ProcessRequest | ProcessResponse): unknown {
  if (message.case !== "step") {
    return message;
  }
  const { value } = message;
  return "actions" in value
    ? {
        case: "step",
        actions: entriesOf(value.actions),
        requestedObservations: value.requestedObservations.map(BigInt),
      }
    : { case: "step", state: value.state, observations: entriesOf(value.observations) };
}

function entriesOf(entries: readonly UidTensor[]): Map<string, unknown> {
  const uids = new Set<Uid>(entries.map(({ uid }) => uid));
  if (uids.size !== entries.length) {
    throw new Error("duplicate UID: expected each UID once");
  }
  return sorted(entries.map(({ uid, tensor }) => [String(uid), valuesOf(tensor)]));
}

function mapOf(entries: readonly [string, TensorMessage][]): Map<string, unknown> {
  return sorted(
    entries.map(([uid, tensor]) => [
      uid,
      tensor.payload.case === undefined
        ? { dtype: "unset", shape: tensor.shape, data: [] }
        : valuesOf(unpackTensor(tensor)),
    ]),
  );
}

const sorted = (entries: readonly (readonly [string, unknown])[]): Map<string, unknown> =>
  new Map([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
