// SPDX-License-Identifier: Apache-2.0

/** Most bytes of one message, in either direction, before and after inflation: 64 MiB. */
export const defaultMaxMessageBytes: number = 64 * 1024 * 1024;

/**
 * HTTP/2 flow-control window of every stream and of every connection: 4 MiB.
 * The protocol's own 65,535 bytes cost a round trip for every 64 KB of a large observation.
 */
export const windowBytes: number = 4 * 1024 * 1024;

/**
 * node:http2 resets a stream of a connection that has more than this queued, in MB, as soon as
 * headers or trailers come for it: with its default of 10 MB, in the middle of any large message.
 * What a connection queues is bounded by its streams (`highWaterBytes`, `maxMessageBytes`).
 */
export const maxSessionMemoryMb: number = 4096;

/**
 * How long a client may take to end its side of a call that the server has ended: 1 s. A reset
 * right behind the trailers would be legal, but clients that read by node:http2's iterators
 * then lose what they have not read.
 */
export const goodbyeMs: number = 1_000;

/**
 * What a stream buffers for a peer that does not read before `send` returns false: 256 KiB,
 * enough for a large observation or two without a pause.
 */
export const highWaterBytes: number = 256 * 1024;

/** Paused, a stream takes in this much itself before it stops node:http2, which costs more. */
export const holdBytes: number = 64 * 1024;

/** Chunks that node:http2 has buffered are taken in bursts of this many, then others get their turn. */
export const chunksPerBurst = 8;
