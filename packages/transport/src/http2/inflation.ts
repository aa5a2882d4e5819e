// SPDX-License-Identifier: Apache-2.0
import { gunzip } from "node:zlib";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { tooLarge } from "../limits/too-large.ts";

/** What gzip cannot do better than: 1,032 bytes out of one. */
const maxInflation = 1032;
/** What gzip begins with, and the least that it takes (RFC 1952). */
const gzipMagic = 0x1f8b;
const minGzipBytes = 18;
const minChunkBytes = 1024;
const maxChunkBytes = 1024 * 1024;

/** What gzip says in its last four bytes of how much was compressed. */
function inflatedBytes(gzip: Buffer): number {
  const isGzip = gzip.length >= minGzipBytes && gzip.readUInt16BE(0) === gzipMagic;
  return isGzip ? gzip.readUInt32LE(gzip.length - 4) : 0;
}

/** Inflates gzip in another thread, up to the bytes that it says. */
export function inflate(gzip: Buffer, done: (result: Buffer | DmEnvRpcError) => void): void {
  const said = inflatedBytes(gzip);
  const options = { maxOutputLength: Math.max(1, said), chunkSize: chunkBytes(gzip, said) };
  gunzip(gzip, options, (error, inflated) => {
    if (error === null) {
      done(inflated);
      return;
    }
    const isLarger = "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
    const why = isLarger ? `more than the ${said} bytes that it says` : error.message;
    done(new DmEnvRpcError("INTERNAL", `malformed gzip: ${why}`, { origin: "connection" }));
  });
}

/**
 * How much to inflate at a time: all of a message, as far as what it says of its size can be true.
 * With chunks of node:zlib's 16 KiB a large observation takes more than three times as long.
 */
function chunkBytes(gzip: Buffer, said: number): number {
  const most = Math.min(maxChunkBytes, maxInflation * gzip.length);
  return Math.max(minChunkBytes, Math.min(said, most));
}

/** The bytes that a compressed message inflates to; an error where its encoding is unknown or they are too many. */
export function inflatedSize(
  bytes: Buffer,
  encoding: string | undefined,
  maxMessageBytes: number,
  side: "client" | "server",
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
    ? tooLarge(side, `${said} bytes after inflation`, maxMessageBytes)
    : said;
}
