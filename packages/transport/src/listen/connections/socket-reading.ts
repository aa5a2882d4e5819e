// SPDX-License-Identifier: Apache-2.0
import type { Socket } from "node:net";
import type { Readable } from "node:stream";

/** Stops and starts the reading of a connection. */
export interface SocketReading {
  stop(): void;
  start(): void;
}

/** The part of a socket's handle that libuv implements. Node's types do not declare it. */
interface Handle {
  /** Called for each read, and for the end. */
  onread: unknown;
  readStop(): void;
  readStart(): void;
}

/**
 * Returns the reading of a socket that a session of node:http2 uses. The session refuses `pause` and `resume`, because it
 * reads the socket's handle itself. Once the handle has stopped, libuv drops the rest of a burst that it was about to
 * read in the same turn. If a write of the session has to wait, node:http2 starts the handle again after the write.
 */
export function readingOf(socket: Socket): SocketReading {
  const handle = handleOf(socket);
  return {
    stop: () => handle?.readStop(),
    start: () => handle?.readStart(),
  };
}

/**
 * Stops the reading of a socket for good. A socket that is destroyed but not closed yet must not read: node:net takes the
 * number of bytes for an error number, and throws where nothing can catch it. TLS emits what it has decrypted even
 * after `readStop`, so `onread` is replaced, too, as node:net does when it closes a socket.
 */
export function endReading(socket: Readable): void {
  const handle = handleOf(socket);
  if (handle !== undefined) {
    handle.onread = () => {};
    handle.readStop();
  }
}

/** Returns undefined if the socket has no handle that can stop. Its reading then never stops. */
function handleOf(socket: Readable): Handle | undefined {
  const handle: unknown = Reflect.get(socket, "_handle");
  return isHandle(handle) ? handle : undefined;
}

function isHandle(handle: unknown): handle is Handle {
  return (
    typeof handle === "object" &&
    handle !== null &&
    "readStop" in handle &&
    typeof handle.readStop === "function" &&
    "readStart" in handle &&
    typeof handle.readStart === "function"
  );
}
