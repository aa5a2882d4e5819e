// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { listen } from "../listen/listen.ts";
import type { Listener, ListenOptions } from "../listen/listen-options.ts";
import type { ServerStream } from "../stream/message-stream.ts";
import { answered, nameOf } from "./messages.ts";
import { type Recorder, record } from "./recorder.ts";

/** The listener of a test, with the streams that it has accepted. */
export interface Serving extends AsyncDisposable {
  readonly listener: Listener;
  readonly address: string;
  /** Errors passed to `onError`. */
  readonly errors: readonly Error[];
  /** Resolves with the next stream that it has not returned before. */
  next(): Promise<ServerStream>;
}

/** Listens on a free port; disposing fails if a stream leaked. */
export async function serving(options: Partial<ListenOptions> = {}): Promise<Serving> {
  const come: ServerStream[] = [];
  const asked: ((stream: ServerStream) => void)[] = [];
  const errors: Error[] = [];
  const listener = await listen({
    onStream: (stream) => {
      const ask = asked.shift();
      if (ask === undefined) {
        come.push(stream);
      } else {
        ask(stream);
      }
    },
    onError: (error) => errors.push(error),
    ...options,
  });
  return {
    listener,
    address: `${listener.host}:${listener.port}`,
    errors,
    next: () =>
      new Promise((resolve) => {
        const stream = come.shift();
        if (stream === undefined) {
          asked.push(resolve);
        } else {
          resolve(stream);
        }
      }),
    async [Symbol.asyncDispose]() {
      await listener.close({ graceMs: 200 });
      if (listener.streams > 0 || listener.connections > 0) {
        throw new Error(
          `leak: expected no streams and connections after close, received ${listener.streams} and ${listener.connections}`,
        );
      }
    },
  };
}

/** Answers each named request with the same name, each step with its actions, and a half-close with an end. */
export function echo(stream: ServerStream): Recorder<ProcessRequest> {
  return record(stream, {
    onMessage: (request) => {
      if (request.case === "step") {
        stream.send({
          case: "step",
          value: { state: 1, observations: request.value.actions },
        });
      } else {
        stream.send(answered(nameOf(request)));
      }
    },
    onEnd: () => stream.end(),
  });
}
