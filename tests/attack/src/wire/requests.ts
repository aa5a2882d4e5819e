// SPDX-License-Identifier: Apache-2.0
import { fromBinary } from "@bufbuild/protobuf";
import { type EnvironmentResponse, EnvironmentResponseSchema } from "@dm-env-rpc/protocol";
import { field, integerField, varint } from "@dm-env-rpc/tests-processes";
import type { Peer } from "./peer.ts";

/** Field numbers of EnvironmentRequest. */
export const requestFields = {
  createWorld: 1,
  joinWorld: 2,
  step: 3,
  reset: 4,
  resetWorld: 5,
  leaveWorld: 6,
  destroyWorld: 7,
  readProperty: 8,
  writeProperty: 9,
  listProperty: 10,
  extension: 15,
} as const;

/** Field numbers of Tensor. */
export const tensorFields = {
  int32s: 4,
  int64s: 5,
  uint8s: 6,
  strings: 10,
  protos: 11,
  shape: 15,
} as const;

/** Encodes a request with the given fields of its message. */
export function requestOf(
  kind: keyof typeof requestFields,
  ...parts: readonly Uint8Array[]
): Buffer {
  return field(requestFields[kind], ...parts);
}

/** Encodes an entry of the map `settings` in a create. */
export function setting(name: string, tensor: Uint8Array): Buffer {
  return field(1, field(1, Buffer.from(name)), field(2, tensor));
}

/** Encodes a join of a world with several seats. */
export function joinWithSeats(world: string, seats: number): Buffer {
  const entry = field(2, field(1, Buffer.from("seats")), field(2, int32(seats)));
  return requestOf("joinWorld", field(1, Buffer.from(world)), entry);
}

/** Encodes a create with one setting. */
export function createWith(tensor: Uint8Array): Buffer {
  return requestOf("createWorld", setting("x", tensor));
}

/** Encodes a tensor of one int32. */
function int32(value: number): Buffer {
  return field(tensorFields.int32s, field(1, varint(value)));
}

/** Encodes a step that requests the given observations. */
export function stepFor(observations: readonly number[]): Buffer {
  return requestOf("step", field(2, Buffer.concat(observations.map(varint))));
}

/** Encodes a step with one action. */
export function action(uid: number, tensor: Uint8Array): Buffer {
  return requestOf("step", field(1, integerField(1, uid), field(2, tensor)));
}

/** A world that a stream has joined. */
export interface Joined {
  readonly stream: number;
  readonly world: string;
  /** UIDs of all observations of the world. */
  readonly observations: readonly number[];
}

/** Creates a world with integer settings and returns its name; undefined if the stream ends. */
export async function createOn(
  peer: Peer,
  stream: number,
  settings: Readonly<Record<string, number>> = {},
): Promise<string | undefined> {
  const entries = Object.entries(settings).map(([name, value]) => setting(name, int32(value)));
  const created = await ask(peer, stream, requestOf("createWorld", ...entries));
  return created?.case === "createWorld" ? created.value.worldName : undefined;
}

/** Joins a world on a stream; returns undefined if the stream ends. */
export async function joinOn(
  peer: Peer,
  stream: number,
  world: string,
): Promise<Joined | undefined> {
  const joined = await ask(peer, stream, requestOf("joinWorld", field(1, Buffer.from(world))));
  if (joined?.case !== "joinWorld") {
    return undefined;
  }
  const observations = Object.keys(joined.value.specs?.observations ?? {}).map(Number);
  return { stream, world, observations };
}

/** Opens a stream, creates a world and joins it; returns undefined if the stream ends. */
export async function joinOwn(
  peer: Peer,
  settings?: Readonly<Record<string, number>>,
): Promise<Joined | undefined> {
  const stream = await peer.call();
  const world = await createOn(peer, stream, settings);
  return world === undefined ? undefined : await joinOn(peer, stream, world);
}

/** Sends a request and reads its response; returns undefined if the stream ends. */
async function ask(
  peer: Peer,
  stream: number,
  request: Uint8Array,
): Promise<EnvironmentResponse["payload"] | undefined> {
  await peer.request(stream, request);
  const answer = await peer.answer(stream);
  return answer && fromBinary(EnvironmentResponseSchema, answer).payload;
}
