// SPDX-License-Identifier: Apache-2.0
import { deepEqual } from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { LeaveWorldRequestSchema, LeaveWorldResponseSchema } from "@dm-env-rpc/protocol";
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
