// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentRequest, EnvironmentResponse } from "@dm-env-rpc/protocol";
import type { StepRequest, StepResponse } from "./steps/step.ts";

/** A complete frame that is not a message of the protocol. */
export interface Malformed {
  readonly case: "malformed";
  /** The error, with the offset at which decoding failed. */
  readonly value: Error;
}

/**
 * A message that an agent sends on a Process stream: the payload of an EnvironmentRequest.
 * A step, which is the hot path, is a record of tensors; every other payload is the generated message.
 * `case: undefined` is a request without a payload.
 */
export type ProcessRequest =
  | { readonly case: "step"; readonly value: StepRequest }
  | Exclude<EnvironmentRequest["payload"], { case: "step" }>;

/** A message that a server sends on a Process stream: the payload of an EnvironmentResponse. */
export type ProcessResponse =
  | { readonly case: "step"; readonly value: StepResponse }
  | Exclude<EnvironmentResponse["payload"], { case: "step" }>;

/**
 * Encodes and decodes the messages of one direction of a stream.
 *
 * Call `size` right before `write`, once each and with the same message: a codec may reuse its
 * measurements.
 */
export interface MessageCodec<T> {
  /**
   * Returns the size of a message in bytes.
   *
   * @throws TensorError `value` for a string without a UTF-8 encoding; the error of the
   * generated code for a message with fields of the wrong type.
   */
  size(message: T): number;
  /** Writes a message of `size(message)` bytes into `target` at `offset`; returns the offset after it. */
  write(message: T, target: Uint8Array, offset: number): number;
  /**
   * Reads the message in `source` from `start` to `end`. Tensors in it are views of `source` where
   * alignment allows: they keep it in memory, and change when it is overwritten. Steps of one layout
   * may share shapes and requested UIDs, which are frozen. Never throws: undecodable bytes are
   * `malformed`.
   */
  read(source: Uint8Array, start: number, end: number): T | Malformed;
  /**
   * Starts to check a message of `size` bytes against the limits while its bytes arrive, so that most messages that
   * `read` would refuse are refused early. Undefined if the codec only reads whole messages.
   */
  readonly arriving?: ((size: number) => ArrivingMessage) | undefined;
}

/** A message that is checked while its bytes arrive. It keeps none of them. */
export interface ArrivingMessage {
  /**
   * Checks the next bytes of the message, from `start` to `end` of `source`.
   *
   * @returns The refusal of `read`, if the bytes so far imply it; then call `add` no more.
   */
  add(source: Uint8Array, start: number, end: number): Malformed | undefined;
}
