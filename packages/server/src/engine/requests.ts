// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError, PackedTensor } from "@dm-env-rpc/tensor-codec";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

/** Receives the one response to an outstanding request of an agent. */
export type Reply = (response: ProcessResponse) => void;

/** Receives the one outcome of an outstanding request about a world. */
export type Done<T> = (result: T | DmEnvRpcError) => void;

/** Settings of a request by name, not yet checked against their specs. */
export type PackedSettings = ReadonlyMap<string, PackedTensor>;

/** A call of an author's function for one request. */
export interface AuthorCall {
  /** Name of the function in errors. */
  readonly name: string;
  /** False if the function only reads the world. */
  readonly mayChange: boolean;
}
