// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { LeaveWorldResponseSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { rawCodecs, rawResponse } from "@dm-env-rpc/transport/internal/relay";
import { expect, it } from "vitest";
import { joinStreams } from "./join-streams.ts";

it("passes on all answers of a program before the status with which the program ends the stream", async () => {
  const [agent, agentOfRelay] = memoryStreamPair({ codecs: rawCodecs });
  const [programOfRelay, program] = memoryStreamPair({ codecs: rawCodecs });
  joinStreams(agentOfRelay, programOfRelay, () => {});
  let answers = 0;
  const closed = new Promise<Error | undefined>((resolve) =>
    agent.start({
      onMessage: () => {
        answers += 1;
        agent.pause();
        setImmediate(() => agent.resume());
      },
      onEnd() {},
      onDrain() {},
      onClose: resolve,
    }),
  );
  const answer = { case: "leaveWorld", value: create(LeaveWorldResponseSchema) } as const;
  for (let sent = 0; sent < 100; sent++) {
    program.send(rawResponse(answer));
  }
  program.end(new DmEnvRpcError("UNAVAILABLE", "the server is shutting down"));
  expect(await closed).toMatchObject({
    code: "UNAVAILABLE",
    message: "the server is shutting down",
  });
  expect(answers).toBe(100);
});
