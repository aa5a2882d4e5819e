// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { RefusalCounts } from "../internal/counts/refusal-counts.ts";
import { later } from "../internal/turns/later.ts";
import { networkOf } from "../internal/turns/network-of.ts";
import { Queue } from "../internal/turns/queue.ts";
import type { ListenLimits } from "./listen-limits.ts";

// Undelivered bytes are counted in two ways. Streams report the bytes that they hold themselves. Surveys, which a timer
// starts, count the bytes of all streams in the layers below: what node:http2 has read ahead, and what peers have not
// read yet.

/** A stream is ended once this many checks in a row have found that no byte of its incomplete message has arrived. */
const stallChecks = 4;

/** Share of `maxBufferedBytes` from which surveys are frequent. */
const alertShare = 1 / 8;

/** Time between two surveys while less than `alertShare` is buffered. */
const calmMs = 100;

/** Time between two surveys while `alertShare` or more is buffered. */
const alertMs = 20;

/** Share of `maxBufferedBytes` above which each stream buffers less for its peer (`ByteAccount.isTight`). */
const tightShare = 1 / 4;

/**
 * Above `maxBufferedBytes`, each report of further bytes counts the bytes of all streams again, because peers may have
 * read meanwhile. If there are many streams, this is done less often, so that at most this many streams are counted per
 * millisecond, on average.
 */
const entriesPerMs = 256;

/** Surveys take at most 1/50 of the thread's time, unless `latestMs` makes the next survey earlier. */
const surveyShare = 50;

/** Maximum time between two surveys, even if surveys then take more than their share of the thread's time. */
const latestMs = 250;

/**
 * Number of turns of the event loop that node:http2 needs to write the error of an ended stream: to end the response, to
 * ask for its trailers, to queue them, and to write them. Surveys skip the stream meanwhile.
 */
const turnsToWriteError = 4;

/** Limits on the undelivered bytes that a listener buffers. */
export type BufferLimits = Pick<
  ListenLimits,
  "maxBufferedBytes" | "maxBufferedBytesPerConnection" | "stalledMessageMs"
>;

/** The undelivered bytes of the streams of one connection. */
export interface ConnectionBytes {
  /** Network of the peer, as `networkOf` returns it. */
  readonly network: string;
  bytes: number;
  /** Number of pieces since the last survey; see `ByteAccount.piece`. */
  pieces: number;
}

/** Creates the count of a connection that has no streams yet. */
export function connectionBytes(address: string): ConnectionBytes {
  return { network: networkOf(address), bytes: 0, pieces: 0 };
}

/** The part of a stream that its account uses. */
export interface ByteHolder {
  /** True while the stream waits for the rest of a message, which only the peer can send. */
  readonly isWaitingForPeer: boolean;
  /**
   * Number of chunks received so far. A message stalls while it does not change. Default: a message stalls while the
   * bytes reported with `hold` do not change.
   */
  readonly receivedChunks?: number | undefined;
  /**
   * Bytes that the stream does not report with `hold`: bytes that the layers below it have read ahead, and bytes that
   * its peer has not read.
   */
  readonly unreportedBytes: number;
  /**
   * Ends the stream. If the stream still holds bytes at the first survey after `turnsToWriteError`, `fail` is called
   * again. It must then free the bytes without waiting for the peer.
   */
  fail(error: DmEnvRpcError): void;
}

/** Account of the undelivered bytes of one stream. */
export interface ByteAccount {
  /**
   * True while all streams together buffer much (`tightShare`). A stream then buffers at most `lowWaterBytes` for its
   * peer before `send` returns false. The requests of a peer that does not read then wait from `lowWaterBytes` of
   * unread responses instead of `highWaterBytes`, so that the limit is not reached and no stream has to end.
   */
  readonly isTight: boolean;
  /**
   * Reports the bytes that the stream itself holds. If a limit is exceeded, a stream ends: this stream, or one that
   * holds more bytes.
   */
  hold(bytes: number): void;
  /** Counts the holder's `unreportedBytes` now instead of at the next survey; ends streams as `hold` does. */
  count(): void;
  /**
   * Counts the holder's `unreportedBytes` after a write. The peer may be about to read the written bytes. So if a limit
   * is exceeded, streams end only in a later turn, and only if the bytes are still unread.
   */
  countWritten(): void;
  /**
   * Counts a piece: a chunk of a few bytes (`pieceBytes`) in the middle of a message. It takes as much time as a chunk
   * of 16 KB.
   *
   * @returns False if the network of the peer has sent more pieces since the last survey than honest clients send.
   */
  piece(): boolean;
  /**
   * Calls `start` once this message and the messages that are already being inflated fit in `maxInflatingBytes`
   * together. A message above `maxInflatingBytes` is inflated alone.
   *
   * @param bytes Memory that the message takes.
   * @param start Starts the inflation, and calls `finished` when it is done.
   */
  inflateInTurn(bytes: number, start: (finished: () => void) => void): void;
  /** Closes the account of a stream that has closed: its bytes are no longer counted. */
  close(): void;
}

/** Maximum number of a network's pieces between two surveys. So many pieces take 5 ms of the thread's time. */
export const maxPieces = 2_048;

/** Maximum memory of the messages that are being inflated at the same time. */
const maxInflatingBytes = 16 * 1024 * 1024;

/** The part of `BufferedBytes` that accounts use. */
interface Ledger {
  readonly isTight: boolean;
  hold(entry: Entry, bytes: number): void;
  count(entry: Entry): void;
  countWritten(entry: Entry): void;
  /** Counts a piece of a network, and returns the number of its pieces since the last survey. */
  countPiece(network: string): number;
  inflateInTurn(inflation: Inflation): void;
  close(entry: Entry): void;
}

/** The account of a stream. A class, so that the accounts of all streams share their functions. */
class Entry implements ByteAccount {
  holder: ByteHolder;
  readonly connection: ConnectionBytes;
  /** Bytes that the stream has reported with `hold`. */
  held = 0;
  /** Value of the holder's `unreportedBytes` when it was last counted. */
  surveyed = 0;
  /**
   * The error with which `#end` ended the stream. The first survey after `turnsToWriteError` clears it; by then, the
   * stream should hold no bytes.
   */
  ending: DmEnvRpcError | undefined = undefined;
  /** True during `turnsToWriteError` after the stream was ended. */
  isWritingError = false;
  /** Value of the holder's `receivedChunks`, or else of `held`, at the last check for stalled messages. */
  seen = 0;
  /** Number of checks in a row that found that no byte of the incomplete message has arrived. */
  stalled = 0;
  readonly #ledger: Ledger;

  constructor(holder: ByteHolder, connection: ConnectionBytes, ledger: Ledger) {
    this.holder = holder;
    this.connection = connection;
    this.#ledger = ledger;
  }

  get isTight(): boolean {
    return this.#ledger.isTight;
  }

  hold(bytes: number): void {
    if (bytes !== this.held) {
      this.#ledger.hold(this, bytes);
    }
  }

  count(): void {
    this.#ledger.count(this);
  }

  countWritten(): void {
    this.#ledger.countWritten(this);
  }

  piece(): boolean {
    this.connection.pieces += 1;
    return this.#ledger.countPiece(this.connection.network) <= maxPieces;
  }

  inflateInTurn(bytes: number, start: (finished: () => void) => void): void {
    this.#ledger.inflateInTurn({ bytes, start });
  }

  close(): void {
    this.#ledger.close(this);
  }
}

/** The holder of a closed account. */
const closed: ByteHolder = { isWaitingForPeer: false, unreportedBytes: 0, fail: () => {} };

/** A message that waits until it may be inflated. */
interface Inflation {
  readonly bytes: number;
  start(finished: () => void): void;
}

/**
 * Counts the undelivered bytes of a listener, in both directions: messages that are incomplete, are being inflated, or
 * wait behind an unanswered request; bytes that are read ahead; and bytes that peers do not read.
 *
 * Streams report changes of the bytes that they hold themselves. A timer surveys the buffers of the layers below,
 * because counting those for every message would be slow.
 */
export class BufferedBytes {
  readonly #limits: BufferLimits;
  readonly #refusals: RefusalCounts;
  readonly #entries = new Set<Entry>();
  readonly #timer: NodeJS.Timeout | undefined;
  #survey: NodeJS.Timeout | undefined;
  #bytes = 0;
  /** True if a check of all streams is scheduled. */
  #willCheck = false;
  /** Earliest time at which `#check` counts the bytes of all streams again. */
  #nextCountMs = 0;
  /** Number of pieces of each network since the last survey. */
  readonly #pieces = new Map<string, number>();
  /** Inflations that wait for their turn. */
  readonly #inflations = new Queue<Inflation>();
  /** Bytes of the messages that are being inflated. */
  #inflating = 0;

  /** Errors by the name of their limit. */
  readonly #errors = new Map<string, DmEnvRpcError>();
  readonly #ledger: Ledger;

  /** @param refusals Counts the streams that are ended. */
  constructor(limits: BufferLimits, refusals: RefusalCounts = new RefusalCounts()) {
    this.#limits = limits;
    this.#refusals = refusals;
    const { stalledMessageMs } = limits;
    if (stalledMessageMs > 0) {
      const everyMs = Math.max(1, stalledMessageMs / stallChecks);
      this.#timer = setInterval(() => this.#endStalled(), everyMs).unref();
    }
    const buffered = this;
    this.#ledger = {
      get isTight() {
        return buffered.#isTight;
      },
      hold: (entry, bytes) => this.#hold(entry, bytes),
      count: (entry) => this.#count(entry),
      countWritten: (entry) => this.#countWritten(entry),
      countPiece: (network) => {
        const pieces = (this.#pieces.get(network) ?? 0) + 1;
        this.#pieces.set(network, pieces);
        return pieces;
      },
      inflateInTurn: (inflation) => {
        this.#inflations.push(inflation);
        this.#inflateNext();
      },
      close: (entry) => this.#close(entry),
    };
  }

  /** Sum of the undelivered bytes. The bytes in the layers below are as of their last count. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Starts the next inflations that fit. The inflation of an ended stream finishes inside `start`. This is a loop,
   * because thousands of such streams would otherwise nest thousands of calls.
   */
  #inflateNext(): void {
    for (;;) {
      const next = this.#inflations.first;
      if (next === undefined) {
        return;
      }
      const { bytes, start } = next;
      if (this.#inflating > 0 && this.#inflating + bytes > maxInflatingBytes) {
        return;
      }
      this.#inflations.shift();
      this.#inflating += bytes;
      let isStarting = true;
      start(() => {
        this.#inflating -= bytes;
        if (!isStarting) {
          this.#inflateNext();
        }
      });
      isStarting = false;
    }
  }

  /** Opens the account of a stream. */
  open(connection: ConnectionBytes, holder: ByteHolder): ByteAccount {
    const entry = new Entry(holder, connection, this.#ledger);
    this.#entries.add(entry);
    this.#surveyLater(calmMs);
    return entry;
  }

  /** Stops the surveys and the checks for stalled messages. */
  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#survey);
  }

  #hold(entry: Entry, bytes: number): void {
    if (!this.#entries.has(entry)) {
      return;
    }
    const more = bytes - entry.held;
    entry.held = bytes;
    this.#add(entry, more);
    if (more > 0) {
      this.#check(entry);
    }
  }

  #count(entry: Entry): void {
    if (this.#entries.has(entry) && entry.ending === undefined && this.#refresh(entry) > 0) {
      this.#check(entry);
    }
  }

  #countWritten(entry: Entry): void {
    if (!this.#entries.has(entry) || entry.ending !== undefined) {
      return;
    }
    if (this.#refresh(entry) > 0 && this.#bytes > this.#limits.maxBufferedBytes) {
      this.#checkLater(0);
    }
  }

  #close(entry: Entry): void {
    if (this.#entries.delete(entry)) {
      this.#add(entry, -bytesOf(entry));
      entry.held = 0;
      entry.surveyed = 0;
      entry.holder = closed;
    }
  }

  get #isTight(): boolean {
    return this.#bytes > tightShare * this.#limits.maxBufferedBytes;
  }

  #add(entry: Entry, more: number): void {
    entry.connection.bytes += more;
    this.#bytes += more;
  }

  #surveyLater(ms: number): void {
    this.#survey ??= setTimeout(() => {
      this.#survey = undefined;
      const since = performance.now();
      this.#surveyAll();
      if (this.#entries.size > 0) {
        const isCalm = this.#bytes < alertShare * this.#limits.maxBufferedBytes;
        const tookMs = performance.now() - since;
        const dueMs = Math.max(isCalm ? calmMs : alertMs, surveyShare * tookMs);
        this.#surveyLater(Math.min(dueMs, latestMs));
      }
    }, ms).unref();
  }

  /** Counts the unreported bytes of a stream, and returns by how many they have grown since the last count. */
  #refresh(entry: Entry): number {
    const { unreportedBytes } = entry.holder;
    const more = unreportedBytes - entry.surveyed;
    entry.surveyed = unreportedBytes;
    this.#add(entry, more);
    return more;
  }

  /** Surveys all streams, then ends streams until all limits are kept. */
  #surveyAll(): void {
    this.#pieces.clear();
    for (const entry of [...this.#entries]) {
      entry.connection.pieces = 0;
      if (entry.isWritingError) {
        continue;
      }
      this.#refresh(entry);
      const { ending } = entry;
      if (ending !== undefined && bytesOf(entry) > 0) {
        this.#end(entry, ending); // The peer does not even read the end of the stream.
      }
      entry.ending = undefined;
    }
    this.#checkAll();
  }

  /** Ends streams if a limit is exceeded, after the bytes of one stream have grown. */
  #check(entry: Entry): void {
    if (entry.connection.bytes > this.#limits.maxBufferedBytesPerConnection) {
      this.#checkConnection(entry.connection);
    }
    if (this.#bytes <= this.#limits.maxBufferedBytes) {
      return;
    }
    const nowMs = performance.now();
    if (nowMs < this.#nextCountMs) {
      this.#checkLater(this.#nextCountMs - nowMs);
    } else {
      this.#nextCountMs = nowMs + Math.floor(this.#entries.size / entriesPerMs);
      this.#refreshAll();
      this.#checkSum();
    }
  }

  /**
   * Checks all streams after `ms`. If `ms` is 0, it waits two turns of the event loop: in the first, node:http2 still
   * sends what it can.
   */
  #checkLater(ms: number): void {
    if (this.#willCheck) {
      return;
    }
    this.#willCheck = true;
    const check = (): void => {
      this.#willCheck = false;
      this.#refreshAll();
      this.#checkAll();
    };
    if (ms > 0) {
      setTimeout(check, ms).unref();
    } else {
      afterTurns(2, check);
    }
  }

  /** Counts the unreported bytes of all streams again, because peers may have read since the last survey. */
  #refreshAll(): void {
    for (const entry of this.#entries) {
      if (entry.ending === undefined) {
        this.#refresh(entry);
      }
    }
  }

  /** Ends streams until all limits are kept. */
  #checkAll(): void {
    const { maxBufferedBytesPerConnection } = this.#limits;
    const full = new Set<ConnectionBytes>();
    for (const { connection } of this.#entries) {
      if (connection.bytes > maxBufferedBytesPerConnection) {
        full.add(connection);
      }
    }
    for (const connection of full) {
      this.#checkConnection(connection);
    }
    this.#checkSum();
  }

  /** Ends the largest streams of a connection until the remaining streams are within its limit. */
  #checkConnection(connection: ConnectionBytes): void {
    const { maxBufferedBytesPerConnection } = this.#limits;
    const entries = [...this.#entries].filter((entry) => entry.connection === connection);
    for (const entry of entries.sort((a, b) => bytesOf(b) - bytesOf(a))) {
      // A stream that alone holds all bytes is not ended, so that one message always fits; `maxMessageBytes` limits it.
      const isAlone = bytesOf(entry) === connection.bytes;
      if (isAlone || connection.bytes <= maxBufferedBytesPerConnection) {
        return;
      }
      this.#refusals.count("maxBufferedBytesPerConnection");
      this.#end(entry, this.#tooMany("connection", "maxBufferedBytesPerConnection"));
    }
  }

  /** Ends streams until the remaining streams are within the limit of the server. */
  #checkSum(): void {
    const { maxBufferedBytes } = this.#limits;
    if (this.#bytes <= maxBufferedBytes) {
      return;
    }
    const offenders = new Offenders(this.#entries);
    while (this.#bytes > maxBufferedBytes) {
      const worst = offenders.next();
      if (worst === undefined) {
        return;
      }
      this.#refusals.count("maxBufferedBytes");
      this.#end(worst, this.#tooMany("server", "maxBufferedBytes"));
    }
  }

  /** Returns the error of a limit. All streams share it, because a flood ends hundreds, and each new error costs a stack. */
  #tooMany(
    holder: "connection" | "server",
    limit: "maxBufferedBytes" | "maxBufferedBytesPerConnection",
  ): DmEnvRpcError {
    let error = this.#errors.get(limit);
    if (error === undefined) {
      error = new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many undelivered bytes: expected at most ${this.#limits[limit]} in messages that wait to be answered or read, over all streams of this ${holder}, received more; send less at once, and read the responses (limit: ${limit})`,
      );
      this.#errors.set(limit, error);
    }
    return error;
  }

  /**
   * Ends a stream and stops counting its bytes. If the stream still holds bytes at the first survey after
   * `turnsToWriteError`, they are counted again.
   */
  #end(entry: Entry, error: DmEnvRpcError): void {
    const surveyed = entry.surveyed;
    entry.surveyed = 0;
    if (entry.ending === undefined) {
      entry.ending = error;
      entry.isWritingError = true;
      afterTurns(turnsToWriteError, () => {
        entry.isWritingError = false;
      });
    }
    this.#add(entry, -surveyed);
    entry.holder.fail(error);
    const held = entry.held;
    entry.held = 0;
    this.#add(entry, -held);
  }

  #endStalled(): void {
    for (const entry of [...this.#entries]) {
      // The bytes of a refused message are dropped, so a stream inside it holds none.
      const received = entry.holder.receivedChunks ?? entry.held;
      const isStalled = received > 0 && entry.holder.isWaitingForPeer && entry.seen === received;
      entry.stalled = isStalled ? entry.stalled + 1 : 0;
      entry.seen = received;
      if (entry.stalled >= stallChecks) {
        this.#refusals.count("stalledMessageMs");
        entry.holder.fail(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `message stalled: expected the rest of it within ${this.#limits.stalledMessageMs} ms, received nothing; send messages whole (limit: stalledMessageMs)`,
          ),
        );
      }
    }
  }
}

function afterTurns(turns: number, task: () => void): void {
  later(turns > 1 ? () => afterTurns(turns - 1, task) : task);
}

function bytesOf(entry: Entry): number {
  return entry.held + entry.surveyed;
}

/** The accounts of one connection that hold bytes. */
interface Held {
  readonly connection: ConnectionBytes;
  readonly entries: Entry[];
  /** True if `entries` are sorted, smallest first. */
  isSorted: boolean;
}

/** The connections of one network that hold bytes. */
interface Offender {
  bytes: number;
  readonly connections: Map<ConnectionBytes, Held>;
}

/**
 * The order in which streams end. The first is the stream with the most bytes, on the connection with the most bytes,
 * of the network with the most bytes. So the peer that filled the memory loses a stream, instead of the next peer that
 * sends a large message.
 */
class Offenders {
  readonly #offenders = new Map<string, Offender>();

  constructor(entries: Iterable<Entry>) {
    for (const entry of entries) {
      const { connection } = entry;
      const bytes = bytesOf(entry);
      if (bytes === 0) {
        continue;
      }
      let offender = this.#offenders.get(connection.network);
      if (offender === undefined) {
        offender = { bytes: 0, connections: new Map() };
        this.#offenders.set(connection.network, offender);
      }
      offender.bytes += bytes;
      const held = offender.connections.get(connection);
      if (held === undefined) {
        offender.connections.set(connection, { connection, entries: [entry], isSorted: false });
      } else {
        held.entries.push(entry);
      }
    }
  }

  /** Removes and returns the next account that holds bytes; undefined if none is left. */
  next(): Entry | undefined {
    for (;;) {
      const worst = mostOf(this.#offenders, ([, { bytes }]) => bytes);
      if (worst === undefined) {
        return undefined;
      }
      const [network, offender] = worst;
      const held = mostOf(offender.connections.values(), ({ connection }) => connection.bytes);
      if (held === undefined) {
        this.#offenders.delete(network);
        continue;
      }
      if (!held.isSorted) {
        held.isSorted = true;
        held.entries.reverse().sort((a, b) => bytesOf(a) - bytesOf(b)); // Of equally large entries, the oldest is last.
      }
      const entry = held.entries.pop();
      if (entry === undefined) {
        offender.connections.delete(held.connection);
        continue;
      }
      offender.bytes -= bytesOf(entry);
      if (bytesOf(entry) > 0) {
        return entry;
      }
    }
  }
}

/** Returns the item with the most bytes; undefined if no item has any. */
function mostOf<Item>(items: Iterable<Item>, bytes: (item: Item) => number): Item | undefined {
  let largest: Item | undefined;
  let most = 0;
  for (const item of items) {
    if (bytes(item) > most) {
      largest = item;
      most = bytes(item);
    }
  }
  return largest;
}
