// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackedTensor,
  type PackValue,
  type TensorSpec,
  toValue,
  unpackFor,
} from "@dm-env-rpc/tensor-codec";
import type { Peer } from "@dm-env-rpc/transport";
import { joinTokenSetting, seatKeySetting } from "../definition/reserved-settings.ts";
import type { Done } from "../engine/requests.ts";

/**
 * The seat that a join token was for. One of its functions is called, once. What they throw,
 * and what a promise of theirs rejects with, is reported by the event `seat-failed`.
 */
export interface TakenSeat {
  /**
   * Join settings that the seat comes with. Those that the world declares replace the agent's own; the others are left out.
   */
  readonly settings?: Readonly<Record<string, PackValue>> | undefined;
  /** Names the seat: a join with the same key takes it again after the agent's stream was lost. */
  readonly key?: string | undefined;
  /** The agent's stream was lost, and the world holds its seat: a join with the same token takes it again. */
  hold?(): void;
  /** The agent was in the world and is out of it: it left, its stream ended, or the world did. */
  leave(): void;
  /** The agent never joined: the world refused it, or its stream ended before the answer. */
  giveBack(): void;
}

/**
 * Takes the seat that a token is for.
 *
 * @returns A function that stops waiting for the seat; one that is taken later is given back at once.
 */
export type TakeSeat = (
  token: string | undefined,
  worldName: string,
  done: Done<TakenSeat>,
) => () => void;

/** Characters of a key that nobody guesses. */
const minKeyLength = 16;
const maxKeyLength = 200;

/**
 * Reads the join setting `seat_key`; undefined without one.
 *
 * @throws TensorError if it is not a single string; DmEnvRpcError if it is too short or too long.
 */
export function readSeatKey(packed: PackedTensor | undefined): string | undefined {
  if (packed === undefined) {
    return undefined;
  }
  const key = toValue(unpackFor(packed, spec, seatKeySetting), spec);
  if (key.length < minKeyLength || key.length > maxKeyLength) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `join setting "${seatKeySetting}": expected ${minKeyLength} to ${maxKeyLength} characters that nobody guesses, received ${key.length}; make it a random UUID`,
    );
  }
  return key;
}

const spec = { dtype: "string", shape: [] } as const satisfies TensorSpec;

/**
 * Reads the join token of an agent: the setting `join_token`, else the bearer token in the metadata, which all
 * joins of a stream share.
 *
 * @throws TensorError if the setting is not a single string.
 */
export function readJoinToken(packed: PackedTensor | undefined, peer: Peer): string | undefined {
  if (packed !== undefined) {
    return toValue(unpackFor(packed, spec, joinTokenSetting), spec);
  }
  return /^Bearer +(\S+)$/i.exec(peer.metadata.get("authorization") ?? "")?.[1];
}
