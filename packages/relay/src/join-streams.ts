// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { packStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream, ServerStream } from "@dm-env-rpc/transport";
import { type ThreadShare, toError, turnKeyOf } from "@dm-env-rpc/transport/internal";
import { rawResponse } from "@dm-env-rpc/transport/internal/relay";
import { Turns } from "./turns.ts";

/**
 * Passes messages, ends and errors between an agent's stream and a program's stream. A side that does not read
 * pauses only its counterpart, and no other stream.
 *
 * @param share Shares the thread among the agents: their messages are forwarded in turns.
 * @param onClose Called once, when the agent's stream is closed.
 */
export function joinStreams(
  agent: ServerStream,
  program: ClientStream,
  share: ThreadShare,
  onClose: (error: Error | undefined) => void,
): void {
  /** True while the program's stream has no room for more messages. */
  let isFull = false;
  const resumeAgent = (): void => {
    if (!isFull && !turns.isWaiting) {
      agent.resume();
    }
  };
  const turns = new Turns(share, turnKeyOf(agent.peer.address), {
    pause: () => agent.pause(),
    resume: resumeAgent,
  });
  /**
   * Passes on an answer. For an agent in JSON or over HTTP/1.1, the answer is converted. This fails if the answer is
   * malformed or takes too long to decode.
   *
   * @returns False if the agent reads too slowly.
   */
  const answer = (message: ProcessResponse): boolean => {
    try {
      return agent.send(message);
    } catch (thrown) {
      program.abort(
        new DmEnvRpcError(
          "INTERNAL",
          `response of the program: expected one that can be converted for an agent in JSON or over HTTP/1.1, received ${toError(thrown).message}`,
          { cause: thrown },
        ),
      );
      return true;
    }
  };
  /** Error of a message of the agent that is malformed or too large; sent after the program's answers. */
  let refusal: DmEnvRpcError | undefined;
  agent.start({
    onMessage: (message) => {
      if (message.case === "malformed") {
        const { value: error } = message;
        refusal = isDmEnvRpcError(error)
          ? error
          : new DmEnvRpcError("INVALID_ARGUMENT", error.message, { cause: error });
      } else if (!program.send(message)) {
        isFull = true;
        agent.pause();
      }
      turns.count();
    },
    onEnd: () => program.end(),
    onDrain: () => program.resume(),
    onClose: (error) => {
      if (error !== undefined) {
        program.abort(error);
      }
      onClose(error);
    },
  });
  program.start({
    onMessage: (message) => {
      if (message.case === "malformed") {
        program.abort(message.value);
      } else if (!answer(message)) {
        program.pause();
      }
    },
    onEnd: () => {
      if (refusal !== undefined) {
        answer(rawResponse({ case: "error", value: packStatus(refusal) }));
      }
      agent.end();
    },
    onDrain: () => {
      isFull = false;
      resumeAgent();
    },
    onClose: (error) => {
      if (isDmEnvRpcError(error) && error.origin === "server") {
        agent.end(error); // Delivered after the program's answers.
      } else if (error !== undefined) {
        agent.abort(error);
      }
    },
  });
}
