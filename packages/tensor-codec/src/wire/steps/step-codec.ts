// SPDX-License-Identifier: Apache-2.0

import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { Sizes } from "../primitives/sizes.ts";
import type { Uid } from "../primitives/uid.ts";
import type { UidTensor } from "./step.ts";

/** Reads and writes the steps of one direction, which is the hot path. */
export interface StepCodec<S> {
  size(step: S, sizes: Sizes): number;
  write(step: S, sizes: Sizes, target: Uint8Array, pos: number): number;
  /** Starts an empty step, to be filled by `OpenStep.read`. */
  open(): OpenStep<S>;
  entriesOf(step: S): readonly UidTensor[];
  /** Returns the step's state; 0 for requests, which have none. */
  stateOf(step: S): number;
  /** Returns the requested UIDs; an empty list for responses. */
  requestedOf(step: S): readonly Uid[];
  make(entries: readonly UidTensor[], state: number, requested: readonly Uid[]): S;
}

/** A step that is being read, from one part of the message or merged from several. */
export interface OpenStep<S> {
  read(reader: Reader, options: ReadOptions): void;
  close(): S;
}
