// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { LeaveWorldResponseSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { LoopTurns, ThreadShare } from "@dm-env-rpc/transport/internal";
import { rawCodecs, rawResponse } from "@dm-env-rpc/transport/internal/relay";
import { expect, it } from "vitest";
import { joinStreams } from "./join-streams.ts";

it("passes on all answers of a program before the status with which the program ends the stream", async () => {
  const [agent, agentOfRelay] = memoryStreamPair({ codecs: rawCodecs });
  const [programOfRelay, program] = memoryStreamPair({ codecs: rawCodecs });
  joinStreams(agentOfRelay, programOfRelay, new ThreadShare(), () => {});
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

it("forwards the messages of several agents in turns", async () => {
  const agents = 4;
  const messages = 200;
  let nowMs = 0;
  const share = new ThreadShare(new LoopTurns(() => nowMs));
  let turn = 0;
  let isOver = false;
  const countTurns = (): void => {
    turn += 1;
    if (!isOver) {
      setImmediate(countTurns);
    }
  };
  setImmediate(countTurns);
  const inTurn = new Map<number, number>();
  const request = rawCodecs.request.read(new Uint8Array(3), 0, 3) as ProcessRequest;
  const received = Array.from({ length: agents }, async () => {
    const [agent, agentOfRelay] = memoryStreamPair({ codecs: rawCodecs });
    const [programOfRelay, program] = memoryStreamPair({ codecs: rawCodecs });
    const send = programOfRelay.send.bind(programOfRelay);
    const counting = Object.assign(programOfRelay, {
      send: (message: Parameters<typeof send>[0]) => {
        nowMs += 0.01;
        inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1);
        return send(message);
      },
    });
    joinStreams(agentOfRelay, counting, share, () => {});
    for (let sent = 0; sent < messages; sent++) {
      agent.send(request);
    }
    let count = 0;
    await new Promise<void>((resolve) =>
      program.start({
        onMessage: () => {
          count += 1;
          if (count === messages) {
            resolve();
          }
        },
        onEnd() {},
        onDrain() {},
        onClose() {},
      }),
    );
  });
  await Promise.all(received);
  isOver = true;
  // A millisecond is 100 messages, and the clock is read with every 64th of them.
  expect(Math.max(...inTurn.values())).toBeLessThan(300);
});
