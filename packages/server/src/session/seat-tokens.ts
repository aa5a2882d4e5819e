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
 * The seat of a join token. Exactly one of `giveBack` (the agent never joined) and `leave` (the agent
 * left) is called, once. The exception is a seat that a later join resumed while it was held: its
 * last call is `hold`. The event `seat-failed` reports errors of these functions and rejections of their
 * promises.
 */
export interface TakenSeat {
  /**
   * Join settings of the seat. Settings that the world declares replace the agent's settings;
   * others are ignored.
   */
  readonly settings?: Readonly<Record<string, PackValue>> | undefined;
  /** Identifies the seat: a join with the same key resumes it after the agent's stream was lost. */
  readonly key?: string | undefined;
  /**
   * The span that assigned the seat, as the header `traceparent` of W3C Trace Context: the span of
   * the join links it.
   */
  readonly traceparent?: string | undefined;
  /**
   * Called when the agent's stream was lost and the world holds its seat: a join with the same
   * token resumes it.
   */
  hold?(): void;
  /**
   * Called when the agent has left the world: by a leave, the end of its stream, the end of the
   * world, or because another connection resumed its seat before the loss of the stream was
   * noticed.
   */
  leave(): void;
  /**
   * Called when the agent never joined: the world refused it, or its stream ended before the
   * response.
   */
  giveBack(): void;
}

/**
 * Reserves the seat of a token.
 *
 * @returns A function that stops waiting for the seat. A seat that is reserved afterwards is given
 * back at once.
 */
export type TakeSeat = (
  token: string | undefined,
  worldName: string,
  seatKey: string | undefined,
  done: Done<TakenSeat>,
) => () => void;

/** Minimum length of a key that cannot be guessed, in characters. */
const minKeyLength = 16;
const maxKeyLength = 200;

/**
 * Reads the join setting `seat_key`; undefined if it is not sent.
 *
 * @throws TensorError if the key is not a single string; DmEnvRpcError if it is too short or too
 * long.
 */
export function readSeatKey(packed: PackedTensor | undefined): string | undefined {
  if (packed === undefined) {
    return undefined;
  }
  const key = toValue(unpackFor(packed, spec, seatKeySetting), spec);
  if (key.length < minKeyLength || key.length > maxKeyLength) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `join setting "${seatKeySetting}": expected ${minKeyLength} to ${maxKeyLength} characters that cannot be guessed, received ${key.length}; make it a random UUID`,
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
