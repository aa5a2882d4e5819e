// SPDX-License-Identifier: Apache-2.0

/** Default size limit of a message in either direction, before and after inflation: 64 MiB. */
export const defaultMaxMessageBytes: number = 64 * 1024 * 1024;

/**
 * HTTP/2 flow-control window of every stream, of a client's connection, and of a listener's connection if its peer's
 * network (`networkOf`) has no other connection to the listener (`ConnectionWindows`): 4 MiB. HTTP/2's default of
 * 65,535 bytes costs a round trip for every 64 KB of a large observation.
 */
export const windowBytes: number = 4 * 1024 * 1024;

/**
 * Value for node:http2's `maxSessionMemory`, in MB. While more bytes are queued, node:http2 resets each stream for
 * which headers or trailers arrive. With its default of 10 MB, that would happen in the middle of a large message. The
 * streams themselves bound the bytes that a connection queues (`highWaterBytes`, `maxMessageBytes`).
 */
export const maxSessionMemoryMb: number = 4096;

/**
 * Time for a client to end its side of a call that the server has ended: 1 s. A reset right after the trailers would be
 * legal, but clients that use node:http2's iterators would then lose the messages that they have not read.
 */
export const goodbyeMs: number = 1_000;

/**
 * Bytes that a stream buffers for a slow peer before `send` returns false: 256 KiB, which holds one
 * or two large observations.
 */
export const highWaterBytes: number = 256 * 1024;

/**
 * Value that replaces `highWaterBytes` while all streams of a listener together buffer much: 16 KiB. Even if thousands
 * of peers do not read, each then holds only one message, or several small messages.
 */
export const lowWaterBytes: number = 16 * 1024;

/**
 * A paused stream pauses node:http2, too, once it buffers this many bytes itself: 64 KiB. Pausing node:http2 is
 * expensive.
 */
export const holdBytes: number = 64 * 1024;

/** Maximum number of node:http2's buffered chunks that a stream processes before other streams run. */
export const chunksPerBurst = 8;

/** A part of an incomplete message is a piece if it has fewer bytes than this. */
export const pieceBytes: number = 256;

/** Maximum number of fragments of a message over a WebSocket. */
export const maxFragments: number = 16 * 1024;

/** Maximum number of network reads in which a frame over a WebSocket may arrive, if the library `ws` reads it. */
export const maxFrameReads: number = 256 * 1024;

/** Both limits, for errors. */
export const mostPieces: string = `${maxFragments} fragments per message and ${maxFrameReads} network reads per frame`;
