// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import {
  type ClientStream,
  listen,
  memoryStreamPair,
  openStream,
  type ServerStream,
} from "@dm-env-rpc/transport";
import type { EnvironmentServer } from "../../src/host/environment-server.ts";

/** Carrier of the streams in a model's run. */
export interface Carrier extends AsyncDisposable {
  connect(): Promise<ClientStream>;
  /**
   * Runs everything that can run without time passing; `done` returns true once all required work
   * has finished.
   */
  settle(done: () => boolean): Promise<void>;
}

/**
 * Streams in memory whose tasks run on demand.
 *
 * @param patient True if microtasks also run, as worlds that return promises require.
 */
export function memoryCarrier(server: EnvironmentServer, patient: boolean): Carrier {
  const tasks: (() => void)[] = [];
  const schedule = (task: () => void): void => void tasks.push(task);
  const run = (): void => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
      task();
    }
  };
  return {
    async connect() {
      const [client, serverStream] = memoryStreamPair({ schedule });
      server.accept(serverStream);
      return client;
    },
    async settle() {
      run();
      if (!patient) {
        return;
      }
      for (let quiet = 0; quiet < 24; quiet += 1) {
        await Promise.resolve();
        if (tasks.length > 0) {
          quiet = 0;
        }
        run();
      }
    },
    async [Symbol.asyncDispose]() {},
  };
}

/** Events at the client's side of a stream, and those that the server has seen. */
interface Progress {
  accepted: boolean;
  sent: number;
  seen: number;
  ended: boolean;
  seenEnd: boolean;
  aborted: boolean;
  seenClose: boolean;
}

/** Returns true if the server has seen everything. */
function upToDate({ sent, seen, ended, seenEnd, aborted, seenClose }: Progress): boolean {
  return seenClose || (!aborted && sent === seen && ended === seenEnd);
}

/** Time for the network to deliver everything. */
const networkMs = 5000;

/**
 * A turn of the event loop counts as at most this much of `networkMs`, because a busy machine may stand still for
 * seconds.
 */
const mostOfTurnMs = 10;

/** Streams over HTTP/2, each on a connection of its own. */
export async function http2Carrier(server: EnvironmentServer): Promise<Carrier> {
  const all: Progress[] = [];
  const listener = await listen({
    onStream: (stream) => {
      const progress = all[Number(stream.peer.metadata.get("place"))];
      if (progress === undefined) {
        return;
      }
      server.accept(watched(stream, progress));
      progress.accepted = true;
    },
  });
  return {
    async connect() {
      const progress = {
        accepted: false,
        sent: 0,
        seen: 0,
        ended: false,
        seenEnd: false,
        aborted: false,
        seenClose: false,
      };
      all.push(progress);
      const metadata = { place: String(all.length - 1) };
      const stream = await openStream(listener.url, { metadata });
      // A stream that is dropped before the server has seen it never existed.
      while (!progress.accepted) {
        await setImmediate();
      }
      return counted(stream, progress);
    },
    async settle(done) {
      let leftMs = networkMs;
      while (!(all.every(upToDate) && done()) && leftMs > 0) {
        const turnedMs = performance.now();
        await setImmediate();
        leftMs -= Math.min(performance.now() - turnedMs, mostOfTurnMs);
      }
      for (let turn = 0; turn < 3; turn++) {
        await setImmediate();
      }
    },
    async [Symbol.asyncDispose]() {
      await listener.close({ graceMs: 0 });
    },
  };
}

function counted(stream: ClientStream, progress: Progress): ClientStream {
  return {
    start: (receiver) => stream.start(receiver),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    send(message) {
      progress.sent += 1;
      return stream.send(message);
    },
    end() {
      progress.ended = true;
      stream.end();
    },
    abort(error) {
      progress.aborted = true;
      stream.abort(error);
    },
  };
}

function watched(stream: ServerStream, progress: Progress): ServerStream {
  return {
    peer: stream.peer,
    send: (message) => stream.send(message),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    end: () => stream.end(),
    abort: (error) => stream.abort(error),
    start: (receiver) =>
      stream.start({
        onMessage(message, bytes) {
          receiver.onMessage(message, bytes);
          progress.seen += 1;
        },
        get takesUnread() {
          return receiver.takesUnread;
        },
        onUnread(message) {
          receiver.onUnread?.(message);
          progress.seen += 1;
        },
        onEnd() {
          receiver.onEnd();
          progress.seenEnd = true;
        },
        onDrain: () => receiver.onDrain(),
        onClose(error) {
          receiver.onClose(error);
          progress.seenClose = true;
        },
      }),
  };
}
