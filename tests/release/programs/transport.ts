// SPDX-License-Identifier: Apache-2.0
import { deepEqual } from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { LeaveWorldRequestSchema, LeaveWorldResponseSchema } from "@dm-env-rpc/protocol";
import { Health } from "@dm-env-rpc/protocol/health";
import { listen, openStream } from "@dm-env-rpc/transport";

const seen: string[] = [];
await using listener = await listen({
  onStream: (stream) =>
    stream.start({
      onMessage: (request) => {
        seen.push(`server: ${request.case}`);
        stream.send({ case: "leaveWorld", value: create(LeaveWorldResponseSchema) });
      },
      onEnd: () => stream.end(),
      onDrain: () => {},
      onClose: () => {},
    }),
});
await using stream = await openStream(`127.0.0.1:${listener.port}`);
await new Promise<void>((resolve, reject) => {
  stream.start({
    onMessage: (response) => {
      seen.push(`client: ${response.case}`);
      stream.end();
    },
    onEnd: () => {},
    onDrain: () => {},
    onClose: (error) => (error === undefined ? resolve() : reject(error)),
  });
  stream.send({ case: "leaveWorld", value: create(LeaveWorldRequestSchema) });
});
deepEqual(seen, ["server: leaveWorld", "client: leaveWorld"]);

// Pipelined calls of a lost HTTP/1.1 connection end, although Node 22 does not close their responses.
const calls = { begun: 0, ended: 0 };
await using watched = await listen({
  onStream: () => {},
  routes: (router) =>
    router.service(Health, {
      async *watch(_request, { signal }) {
        yield {};
        await once(signal, "abort");
      },
    }),
  onCall: () => {
    calls.begun += 1;
    return () => {
      calls.ended += 1;
    };
  },
});
const socket = connect(watched.port, watched.host);
const watch = [
  "POST /grpc.health.v1.Health/Watch HTTP/1.1",
  "host: here",
  "content-type: application/connect+json",
  "content-length: 7",
  "",
  "\0\0\0\0\x02{}",
].join("\r\n");
socket.write(watch.repeat(3));
const until = async (isReached: () => boolean): Promise<void> => {
  while (!isReached()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
await until(() => calls.begun === 3);
socket.destroy();
await until(() => calls.ended === 3);
