// SPDX-License-Identifier: Apache-2.0
import { type Tensor, unpackFor } from "@dm-env-rpc/tensor-codec";
import { toError } from "@dm-env-rpc/transport/internal";
import { type SpecTables, tablesOf } from "../environment/join-specs.ts";
import { entryCodec, notRecorded, type RecordingEntry } from "./format.ts";

/** The bytes of a recording, or chunks of them. */
export type RecordingBytes = Uint8Array | AsyncIterable<Uint8Array>;

/** Maximum size of an entry: slightly more than the maximum size of a message. */
const maxEntryBytes = 65 * 1024 * 1024;

/**
 * Reads the entries of a recording, one by one.
 *
 * @throws DmEnvRpcError DATA_LOSS if the file is damaged, or ends within an entry; the earlier
 *   entries were already yielded.
 */
export async function* readEntries(
  source: RecordingBytes,
): AsyncGenerator<RecordingEntry, void, void> {
  const codec = entryCodec();
  let bytes: Uint8Array = new Uint8Array(0);
  let begun = false;
  // Chunks are joined once an entry is complete, so that a large entry is not copied with every
  // chunk.
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let needed = 0;
  for await (const chunk of chunksOf(source)) {
    waiting.push(chunk);
    waitingBytes += chunk.length;
    if (bytes.length + waitingBytes < needed) {
      continue;
    }
    bytes = concatenated([bytes, ...waiting]);
    waiting = [];
    waitingBytes = 0;
    let at = 0;
    for (;;) {
      const prefix = readLength(bytes, at);
      needed = prefix === undefined ? 0 : prefix.end + prefix.length - at;
      if (prefix === undefined || at + needed > bytes.length) {
        break;
      }
      at += needed;
      const entry = decode(codec.decode, Uint8Array.from(bytes.subarray(prefix.end, at)));
      if (!begun && entry.case !== "header") {
        throw notRecorded(new Error("an entry other than a header at the beginning"));
      }
      begun = true;
      yield entry;
    }
    bytes = bytes.subarray(at);
  }
  bytes = concatenated([bytes, ...waiting]);
  if (bytes.length > 0) {
    throw notRecorded(new Error(`an entry that ends after ${bytes.length} bytes`));
  }
  if (!begun) {
    throw notRecorded(new Error("an empty file"));
  }
}

/** A recorded observation. */
export interface RecordedFrame {
  readonly timeUs: number;
  /** Number of the step in the recording, from 0. */
  readonly step: number;
  readonly tensor: Tensor;
}

/**
 * Yields the recorded values of one observation, such as video frames: one value for each step that
 * requested it.
 */
export async function* readFrames(
  source: RecordingBytes,
  name: string,
): AsyncGenerator<RecordedFrame, void, void> {
  let tables: SpecTables | undefined;
  let step = 0;
  for await (const entry of readEntries(source)) {
    if (entry.case !== "response") {
      continue;
    }
    const { value: response, timeUs } = entry;
    if (response.case === "joinWorld" || response.case === "reset") {
      tables = tablesOf(response.value.specs);
    }
    if (response.case !== "step") {
      continue;
    }
    const found = tables?.observations.byName.get(name);
    const observed = response.value.observations.find(({ uid }) => uid === found?.uid);
    if (found !== undefined && observed !== undefined) {
      yield { timeUs, step, tensor: unpackFor(observed.tensor, found.spec, name) };
    }
    step++;
  }
}

async function* chunksOf(source: RecordingBytes): AsyncIterable<Uint8Array> {
  if (source instanceof Uint8Array) {
    yield source;
  } else {
    yield* source;
  }
}

function concatenated(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function decode(read: (bytes: Uint8Array) => RecordingEntry, bytes: Uint8Array): RecordingEntry {
  try {
    return read(bytes);
  } catch (error) {
    if (error instanceof Error && error.name === "DmEnvRpcError") {
      throw error;
    }
    throw notRecorded(toError(error));
  }
}

/** Reads the length before an entry, a varint; undefined if it is incomplete. */
function readLength(
  bytes: Uint8Array,
  at: number,
): { readonly length: number; readonly end: number } | undefined {
  let length = 0;
  for (let i = 0; at + i < bytes.length; i++) {
    const byte = bytes[at + i] as number;
    length += (byte & 0x7f) * 2 ** (7 * i);
    if (length > maxEntryBytes) {
      throw notRecorded(new Error(`an entry of ${length} bytes or more`));
    }
    if (byte < 0x80) {
      return { length, end: at + i + 1 };
    }
  }
  return undefined;
}
