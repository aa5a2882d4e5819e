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

/** What carries the streams of a model's run. */
export interface Carrier extends AsyncDisposable {
  connect(): Promise<ClientStream>;
  /** Lets everything happen that can happen without time passing; `done` says when all that must has. */
  settle(done: () => boolean): Promise<void>;
}

/**
 * Streams in memory whose every task runs when it is told to.
 *
 * @param patient Whether promises are given their turns, as worlds need that answer with promises.
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

/** What was done at the client's side of a stream, and what the server has seen of it. */
interface Progress {
  accepted: boolean;
  sent: number;
  seen: number;
  ended: boolean;
  seenEnd: boolean;
  aborted: boolean;
  seenClose: boolean;
}

/** Whether the server has seen everything. */
function upToDate({ sent, seen, ended, seenEnd, aborted, seenClose }: Progress): boolean {
  return seenClose || (!aborted && sent === seen && ended === seenEnd);
}

/** How long the network may take, in milliseconds. */
const networkMs = 5000;

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
      // A stream that is dropped before the server has heard of it never was.
      while (!progress.accepted) {
        await setImmediate();
      }
      return counted(stream, progress);
    },
    async settle(done) {
      const end = performance.now() + networkMs;
      while (!(all.every(upToDate) && done()) && performance.now() < end) {
        await setImmediate();
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
