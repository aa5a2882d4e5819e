// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentRequest, EnvironmentResponse } from "@dm-env-rpc/protocol";
import type { StepRequest, StepResponse } from "./steps/step.ts";

/** Bytes that came whole but are no message of the protocol. */
export interface Malformed {
  readonly case: "malformed";
  /** Says at which byte, what was expected and what came. */
  readonly value: Error;
}

/**
 * What an agent sends on a Process stream: the payload of an EnvironmentRequest.
 * The hot step is a record of tensors, everything else the generated message;
 * `case: undefined` is a request without a payload.
 */
export type ProcessRequest =
  | { readonly case: "step"; readonly value: StepRequest }
  | Exclude<EnvironmentRequest["payload"], { case: "step" }>;

/** What a server answers on a Process stream: the payload of an EnvironmentResponse. */
export type ProcessResponse =
  | { readonly case: "step"; readonly value: StepResponse }
  | Exclude<EnvironmentResponse["payload"], { case: "step" }>;

/**
 * How one direction of a stream becomes bytes and back.
 *
 * `size` is called right before `write`, once each and on the same message, so that
 * a codec may keep what it measured.
 */
export interface MessageCodec<T> {
  /**
   * The number of bytes of a message.
   *
   * @throws TensorError `value` for a string without a UTF-8 encoding; what the
   * generated code throws for a message that somebody filled badly.
   */
  size(message: T): number;
  /** Writes a message of `size(message)` bytes into `target` at `offset`; returns the offset behind it. */
  write(message: T, target: Uint8Array, offset: number): number;
  /**
   * Reads the message in `source` from `start` to `end`. Tensors in it are views of
   * `source` where its alignment allows, so they keep it in memory and change when it is
   * written to again. Steps of one layout may share shapes and requested UIDs, which are frozen
   * then. Never throws: what is no message is `malformed`.
   */
  read(source: Uint8Array, start: number, end: number): T | Malformed;
}
