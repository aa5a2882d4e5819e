// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, dtypes, elementCount, isVariable } from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { RefusalCounts } from "@dm-env-rpc/transport/internal";
import type { SeatSpecs } from "./seat-specs.ts";

/** Share of the limit above which the worlds with the most bytes keep only the observations that agents request. */
const tightShare = 1 / 4;

type ObservedTensor = UidTensor["tensor"];

/** An observation of at most this many numbers is always kept. */
const fewElements = 64;

/** A copy of an observation, shared by the ends with an identical observation. */
interface Copy {
  readonly observation: UidTensor;
  readonly bytes: number;
  ends: number;
}

/** The observations of one undelivered end, by UID; empty once they are dropped. */
export type SavedEnd = Map<Uid, Copy>;

/** The agent of an end. */
interface EndedSeat {
  readonly specs: SeatSpecs;
  /** Observations that its last step requested. */
  readonly requested: readonly SpecEntry[];
}

/**
 * Counts the bytes of the undelivered ends of all worlds of a server. Above the limit, the world with the most bytes
 * drops its oldest ends, whichever agents they belong to: agents that share a world with a peer that fills the memory
 * may lose theirs, agents of smaller worlds do not.
 */
export class EndBytes {
  readonly limit: number;
  readonly refusals: RefusalCounts;
  readonly #worlds = new Set<SavedEnds>();
  #bytes = 0;

  /** @param refusals Counts the ends that are dropped, and the steps that request what an end does not keep. */
  constructor(limit: number, refusals: RefusalCounts) {
    this.limit = limit;
    this.refusals = refusals;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns true if the ends of all worlds take more than `tightShare` of the limit, and those of this world more than an
   * equal part of that. A world that fills the memory thus does not affect worlds with fewer bytes.
   */
  isTight({ bytes }: SavedEnds): boolean {
    const loose = tightShare * this.limit;
    return this.#bytes > loose && bytes > loose / this.#worlds.size;
  }

  /** Counts bytes that a world keeps, or frees if the number is negative. */
  add(world: SavedEnds, bytes: number): void {
    this.#bytes += bytes;
    if (world.bytes === 0) {
      this.#worlds.delete(world);
    } else {
      this.#worlds.add(world);
    }
  }

  /** Drops ends until the limit is kept. */
  check(): void {
    while (this.#bytes > this.limit) {
      let most: SavedEnds | undefined;
      for (const world of this.#worlds) {
        if (most === undefined || world.bytes > most.bytes) {
          most = world;
        }
      }
      this.refusals.count("maxUndeliveredEndBytes");
      most?.dropOldest();
    }
  }
}

/** The observations of the undelivered ends of one world. */
export class SavedEnds {
  readonly #all: EndBytes;
  /** Ends with observations, the oldest first. */
  readonly #ends = new Set<SavedEnd>();
  /** The last copy of each observation. */
  readonly #last = new Map<Uid, Copy>();
  #bytes = 0;

  constructor(all: EndBytes) {
    this.#all = all;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Copies all observations of an agent. If ends already take much memory, it copies only small observations and those
   * that the agent's last step requested.
   *
   * @param observe Returns borrowed tensors.
   */
  save(
    { specs, requested }: EndedSeat,
    observe: (entries: readonly SpecEntry[]) => readonly UidTensor[],
  ): SavedEnd {
    const { entries } = specs.observations;
    const kept = this.#all.isTight(this)
      ? entries.filter((entry) => requested.includes(entry) || isSmall(entry))
      : entries;
    const end: SavedEnd = new Map();
    this.#ends.add(end);
    for (const observation of observe(kept)) {
      end.set(observation.uid, this.#copy(observation));
    }
    this.#all.check();
    return end;
  }

  /** Returns the requested observations of an end, or the error RESOURCE_EXHAUSTED if one of them was not kept. */
  read(end: SavedEnd, requested: readonly SpecEntry[]): readonly UidTensor[] | DmEnvRpcError {
    const observations: UidTensor[] = [];
    for (const { uid, name } of requested) {
      const copy = end.get(uid);
      if (copy === undefined) {
        return this.#missing(end, name);
      }
      observations.push(copy.observation);
    }
    return observations;
  }

  /** Returns the error of an observation that an end does not have. */
  #missing(end: SavedEnd, name: string): DmEnvRpcError {
    const { limit, refusals } = this.#all;
    const which = `the observation "${name}" of the end of this agent's sequence`;
    const remedy = "step again, which begins the next sequence (limit: maxUndeliveredEndBytes)";
    if (!this.#ends.has(end)) {
      return new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `${which} was dropped: expected at most ${limit} bytes in the undelivered ends of all agents, received more; ${remedy}`,
      );
    }
    refusals.count("maxUndeliveredEndBytes");
    return new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `${which} was not kept: expected one that the agent's last step before the end requested, received another while undelivered ends took more than a quarter of ${limit} bytes; request the same observations in each step, or ${remedy}`,
    );
  }

  /** Frees the observations of an end. */
  drop(end: SavedEnd): void {
    this.#ends.delete(end);
    for (const [uid, copy] of end) {
      copy.ends -= 1;
      if (copy.ends === 0) {
        this.#count(-copy.bytes);
        if (this.#last.get(uid) === copy) {
          this.#last.delete(uid);
        }
      }
    }
    end.clear();
  }

  dropOldest(): void {
    for (const end of this.#ends) {
      this.drop(end);
      return;
    }
  }

  /** Returns the last copy of this observation if it is the same, or a new one. */
  #copy({ uid, tensor }: UidTensor): Copy {
    const last = this.#last.get(uid);
    if (last !== undefined && isSame(last.observation.tensor, tensor)) {
      last.ends += 1;
      return last;
    }
    const data = tensor.data.slice();
    const copy: Copy = {
      observation: { uid, tensor: { ...tensor, data } as ObservedTensor },
      bytes: bytesOf(tensor),
      ends: 1,
    };
    this.#last.set(uid, copy);
    this.#count(copy.bytes);
    return copy;
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#all.add(this, bytes);
  }
}

function isSmall({ spec: { dtype, shape } }: SpecEntry): boolean {
  return dtypes[dtype].bytes > 0 && !isVariable(shape) && elementCount(shape) <= fewElements;
}

function bytesOf({ data }: ObservedTensor): number {
  if (ArrayBuffer.isView(data)) {
    return data.byteLength;
  }
  let bytes = 0;
  for (const element of data) {
    bytes += typeof element === "string" ? 2 * element.length : element.value.length;
  }
  return bytes;
}

/** Returns true if two tensors have the same dtype, shape and elements, bit for bit. */
function isSame(a: ObservedTensor, b: ObservedTensor): boolean {
  return a.dtype === b.dtype && areSame(a.shape, b.shape) && isSameData(a.data, b.data);
}

function isSameData(a: ObservedTensor["data"], b: ObservedTensor["data"]): boolean {
  if (ArrayBuffer.isView(a) || ArrayBuffer.isView(b)) {
    return ArrayBuffer.isView(a) && ArrayBuffer.isView(b) && areSameBytes(a, b);
  }
  return areSame(a, b);
}

function areSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((element, i) => element === b[i]);
}

/** Compares words of four bytes, which is faster, if both arrays are aligned to them. */
function areSameBytes(a: ArrayBufferView, b: ArrayBufferView): boolean {
  if (a.byteLength !== b.byteLength) {
    return false;
  }
  const isAligned = (a.byteOffset | b.byteOffset | a.byteLength) % 4 === 0;
  const [ours, theirs] = isAligned ? [words(a), words(b)] : [bytes(a), bytes(b)];
  for (let i = 0; i < ours.length; i++) {
    if (ours[i] !== theirs[i]) {
      return false;
    }
  }
  return true;
}

const words = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Int32Array =>
  new Int32Array(buffer, byteOffset, byteLength / 4);

const bytes = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
