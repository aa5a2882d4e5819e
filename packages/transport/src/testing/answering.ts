// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { openStream } from "../open/open-stream.ts";
import type { OpenedStream } from "../open/opened-stream.ts";
import { type Recorder, record } from "./recorder.ts";
import { serving } from "./serving.ts";

/** A client's stream with the messages that it received. */
export interface Answered extends AsyncDisposable {
  readonly stream: OpenedStream;
  readonly seen: Recorder<ProcessResponse>;
}

/** Opens a stream to a server that answers each request with `answer`. */
export async function answering(
  answer: (request: ProcessRequest) => ProcessResponse,
): Promise<Answered> {
  const server = await serving();
  const stream = await openStream(server.address);
  const seen = record(stream);
  const served = await server.next();
  record(served, {
    onMessage(request) {
      if (request.case !== "malformed") {
        served.send(answer(request));
      }
    },
    onEnd: () => served.end(),
  });
  return {
    stream,
    seen,
    async [Symbol.asyncDispose]() {
      await stream.close();
      await server[Symbol.asyncDispose]();
    },
  };
}
