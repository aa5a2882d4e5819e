// SPDX-License-Identifier: Apache-2.0

import { openConnectStream } from "../open/open-connect-stream.ts";
import type { OpenOptions } from "../open/open-options.ts";
import { openStream as openInPage } from "../open/open-page-stream.ts";
import { openStream } from "../open/open-stream.ts";
import type { OpenedStream } from "../open/opened-stream.ts";
import { type MemoryStreamOptions, memoryStreamPair } from "../stream/memory-stream.ts";
import type { ClientStream, ServerStream } from "../stream/message-stream.ts";
import { serving } from "./serving.ts";

/** Both ends of a stream over any carrier. */
export interface Pair extends AsyncDisposable {
  readonly client: ClientStream;
  readonly server: ServerStream;
}

interface PairOptions {
  readonly metadata?: ReadonlyMap<string, string> | undefined;
  /** Limit of the server. */
  readonly maxMessageBytes?: number | undefined;
  /** Limit of the client. */
  readonly maxResponseBytes?: number | undefined;
}

/** Every carrier, by name. */
export const carriers: readonly (readonly [string, (options?: PairOptions) => Promise<Pair>])[] = [
  ["memory", async (options = {}) => asPair(...memoryStreamPair(inMemory(options)))],
  ["grpc", (options) => over(openStream, options)],
  ["websocket", (options) => over((address, open) => openStream(`ws://${address}`, open), options)],
  [
    "the platform's own websocket",
    (options) => over((address, open) => openInPage(`ws://${address}`, open), options),
  ],
  ["connect", (options) => over(openConnectStream, options)],
  ["grpc-web", (options) => over(openWebStream, options)],
  ["connect by its own library", (options) => over(openConnectStream, byLibrary(options))],
  ["grpc-web by Connect's library", (options) => over(openWebStream, byLibrary(options))],
];

function openWebStream(address: string, options: OpenOptions): Promise<OpenedStream> {
  return openConnectStream(address, { ...options, protocol: "grpc-web" });
}

/** Adds a header with which the listener passes a call to Connect's library. */
function byLibrary(options: PairOptions = {}): PairOptions {
  return {
    ...options,
    metadata: new Map([...(options.metadata ?? []), ["content-encoding", "identity"]]),
  };
}

/** Returns the options of a pair in memory, whose sides have the same limit. */
function inMemory({
  metadata,
  maxMessageBytes,
  maxResponseBytes,
}: PairOptions): MemoryStreamOptions {
  return { metadata, maxMessageBytes: maxMessageBytes ?? maxResponseBytes };
}

function asPair(client: ClientStream, server: ServerStream): Pair {
  return { client, server, async [Symbol.asyncDispose]() {} };
}

async function over(
  open: (address: string, options: OpenOptions) => Promise<OpenedStream>,
  options: PairOptions = {},
): Promise<Pair> {
  const { metadata, maxMessageBytes = 64 * 1024 * 1024, maxResponseBytes } = options;
  const serve = await serving({
    maxMessageBytes,
    maxConnectRequestBytes: maxMessageBytes,
    maxWebSocketRequestBytes: maxMessageBytes,
  });
  const client = await open(serve.address, { metadata, maxMessageBytes: maxResponseBytes });
  // Opening a call over HTTP/2 sends its headers, so the server accepts the stream before any message.
  const server = await serve.next();
  return {
    client,
    server,
    async [Symbol.asyncDispose]() {
      await client.close();
      await serve[Symbol.asyncDispose]();
    },
  };
}
