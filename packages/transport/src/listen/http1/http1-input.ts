// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import type { TurnKey } from "../../internal/turns/network-turns.ts";
import type { ThreadShare } from "../../internal/turns/thread-share.ts";
import { endReading } from "../connections/socket-reading.ts";

/** Maximum number of bytes that node:http parses at once. */
const sliceBytes = 16 * 1024;

/** Maximum number of requests of a connection that wait for their responses. Browsers send one at a time. */
export const maxPipelined = 16;

/** Maximum number of requests that node:http parses at once. The last of them ends the connection. */
const requestsPerSlice: number = maxPipelined + 1;

/** End of the headers of a request. */
const headEnd = "\r\n\r\n";

/** Size of the shortest request, `GET / HTTP/1.0`. */
const leastRequestBytes = 18;

const noBytes: Buffer = Buffer.alloc(0);

/**
 * Passes the bytes of an HTTP/1.1 connection to node:http in slices, which take turns with the calls of other peers.
 * node:http parses all bytes of a read at once, and the 64 KB of one read may be 2,300 requests. The end of a connection
 * whose requests wait takes a turn, too: node:http aborts all of them at once.
 */
export class Http1Input {
  readonly #socket: Readable;
  readonly #key: TurnKey;
  readonly #share: ThreadShare;
  readonly #requests: () => number;
  readonly #push: Readable["push"];
  /** Bytes that were read and wait for their turn. The socket is not read meanwhile. */
  #waiting: Buffer = noBytes;
  #isScheduled = false;
  #hasEnded = false;
  #isStopped = false;

  /**
   * @param requests Returns the number of requests that wait for their responses.
   */
  constructor(socket: Readable, key: TurnKey, share: ThreadShare, requests: () => number) {
    this.#socket = socket;
    this.#key = key;
    this.#share = share;
    this.#requests = requests;
    this.#push = socket.push.bind(socket);
    const read = socket._read.bind(socket);
    const destroy = socket._destroy.bind(socket);
    // Bytes that a listener has put back, to distinguish HTTP/1.1 from HTTP/2.
    const first: Buffer | null = socket.read();
    socket.push = (chunk: Buffer | null) => this.#receive(chunk);
    socket._read = (size) => {
      if (this.#waiting.length > 0) {
        this.#passInTurn();
      } else {
        read(size);
      }
    };
    socket._destroy = (error, callback) => {
      endReading(socket);
      this.#endInTurn(() => destroy(error, callback));
    };
    if (first !== null) {
      this.#waiting = first;
      this.#passInTurn();
    }
  }

  /** Number of bytes that wait for their turn. */
  get waitingBytes(): number {
    return this.#waiting.length;
  }

  /** Drops all bytes that node:http has not parsed, and reads no more. */
  stop(): void {
    this.#isStopped = true;
    this.#waiting = noBytes;
  }

  /**
   * Gives the socket back to its new owner. Returns the bytes that node:http has not parsed. If the peer has ended its
   * side, the end follows in a later turn, once the owner has the bytes.
   */
  release(): Buffer {
    const rest = this.#waiting;
    this.#waiting = noBytes;
    Reflect.deleteProperty(this.#socket, "push");
    Reflect.deleteProperty(this.#socket, "_read");
    Reflect.deleteProperty(this.#socket, "_destroy");
    if (this.#hasEnded) {
      this.#hasEnded = false;
      setImmediate(() => this.#pushEnd());
    }
    return rest;
  }

  /** Called by node:net for each read. Returns false to stop reading until `_read` is called. */
  #receive(chunk: Buffer | null): boolean {
    if (this.#isStopped) {
      return false;
    }
    if (this.#waiting.length > 0) {
      // Only TLS reads on: what it has decrypted already.
      if (chunk === null) {
        this.#hasEnded = true;
      } else {
        this.#waiting = Buffer.concat([this.#waiting, chunk]);
      }
      return false;
    }
    if (chunk === null) {
      this.#endInTurn(() => this.#pushEnd());
      return false;
    }
    if (!this.#share.isOver && sliceOf(chunk).length === chunk.length) {
      return this.#pushCounted(chunk);
    }
    this.#waiting = chunk;
    this.#passInTurn();
    return false;
  }

  #passInTurn(): void {
    if (this.#isScheduled) {
      return;
    }
    this.#isScheduled = true;
    this.#share.count();
    this.#share.wait(this.#key, () => {
      this.#isScheduled = false;
      this.#passSlice();
    });
  }

  #passSlice(): void {
    if (this.#waiting.length === 0 || this.#socket.destroyed) {
      return;
    }
    const slice = sliceOf(this.#waiting);
    this.#waiting = this.#waiting.subarray(slice.length);
    this.#pushCounted(slice);
    if (this.#hasEnded && this.#waiting.length === 0) {
      this.#endInTurn(() => this.#pushEnd());
    }
  }

  /** Lets node:http parse a chunk, whose time counts for the turn. */
  #pushCounted(chunk: Buffer): boolean {
    const isWanted = this.#push(chunk);
    this.#share.measure();
    return isWanted;
  }

  #pushEnd(): void {
    if (!this.#socket.destroyed) {
      this.#push(null);
      this.#socket.read(0); // As node:net does, so that the socket emits "end".
    }
  }

  /** Calls `end` in a later turn if requests wait, because `end` aborts them. */
  #endInTurn(end: () => void): void {
    if (this.#requests() === 0) {
      end();
      return;
    }
    this.#share.count();
    this.#share.wait(this.#key, () => {
      for (let requests = this.#requests(); requests > 0; requests--) {
        this.#share.count();
      }
      end();
    });
  }
}

/** Returns the first bytes of a chunk: at most `sliceBytes`, with the headers of at most `requestsPerSlice` requests. */
function sliceOf(chunk: Buffer): Buffer {
  const slice = chunk.subarray(0, sliceBytes);
  if (slice.length <= requestsPerSlice * leastRequestBytes) {
    return slice;
  }
  let end = 0;
  for (let requests = 0; requests < requestsPerSlice; requests++) {
    const at = slice.indexOf(headEnd, end);
    if (at < 0) {
      return slice;
    }
    end = at + headEnd.length;
  }
  return slice.subarray(0, end);
}
