// SPDX-License-Identifier: Apache-2.0
import { gunzip } from "node:zlib";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { tooLarge } from "../limits/too-large.ts";

/** Maximum compression ratio of gzip: one byte inflates to at most 1,032. */
const maxInflation = 1032;
/** First two bytes of gzip data (RFC 1952). */
const gzipMagic = 0x1f8b;
/** Minimum size of gzip data: its header and its trailer. */
const minGzipBytes = 18;
const minChunkBytes = 1024;

/** Returns the uncompressed size that gzip data declares in its last four bytes; 0 if the data is not gzip. */
function inflatedBytes(gzip: Buffer): number {
  const isGzip = gzip.length >= minGzipBytes && gzip.readUInt16BE(0) === gzipMagic;
  return isGzip ? gzip.readUInt32LE(gzip.length - 4) : 0;
}

/** Inflates gzip data in another thread, up to its declared size. */
export function inflate(gzip: Buffer, done: (result: Buffer | DmEnvRpcError) => void): void {
  const said = inflatedBytes(gzip);
  const options = { maxOutputLength: Math.max(1, said), chunkSize: chunkBytes(gzip, said) };
  gunzip(gzip, options, (error, inflated) => {
    if (error === null) {
      done(inflated);
      return;
    }
    const isLarger = "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
    const why = isLarger ? `expected the declared ${said} bytes, received more` : error.message;
    done(new DmEnvRpcError("INTERNAL", `malformed gzip: ${why}`, { origin: "connection" }));
  });
}

/**
 * Returns how many bytes to inflate at a time: the declared size, but at most what the data can inflate to. All bytes
 * thus fit in one chunk; node:zlib would join several chunks on the main thread, which takes 40 ms for 60 MB. The extra
 * byte keeps node:zlib from beginning a second chunk.
 */
function chunkBytes(gzip: Buffer, said: number): number {
  return Math.max(minChunkBytes, Math.min(said, maxInflation * gzip.length) + 1);
}

/**
 * Returns the uncompressed size that a compressed message declares, or an error if its encoding is unknown or
 * the size is above the limit.
 */
export function inflatedSize(
  bytes: Buffer,
  encoding: string | undefined,
  maxMessageBytes: number,
  side: "client" | "server",
  limit?: string,
): number | DmEnvRpcError {
  if (encoding === undefined || encoding === "identity") {
    return new DmEnvRpcError(
      "INTERNAL",
      "malformed gRPC frame: a message is compressed, but the call names no grpc-encoding",
      { origin: "connection" },
    );
  }
  if (encoding !== "gzip") {
    return new DmEnvRpcError(
      "UNIMPLEMENTED",
      `compression not supported: expected gzip or identity, received ${encoding}`,
      { origin: "connection" },
    );
  }
  const said = inflatedBytes(bytes);
  return said > maxMessageBytes
    ? tooLarge(side, `${said} bytes after inflation`, maxMessageBytes, limit)
    : said;
}
