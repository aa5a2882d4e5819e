// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import {
  Client,
  credentials,
  type handleBidiStreamingCall,
  Server,
  ServerCredentials,
} from "@grpc/grpc-js";
import { answerGenerated, generatedRequest } from "../loads/generated.ts";
import type { Load } from "../loads/load.ts";
import { pacedAgent } from "./paced.ts";
import { type Agent, moveAt, type Peer } from "./peer.ts";

const path = "/dm_env_rpc.v1.Environment/Process";
const unlimited = {
  "grpc.max_send_message_length": -1,
  "grpc.max_receive_message_length": -1,
};

const fromRequest = (message: EnvironmentRequest): Buffer =>
  asBuffer(toBinary(EnvironmentRequestSchema, message));
const toRequest = (bytes: Buffer): EnvironmentRequest =>
  fromBinary(EnvironmentRequestSchema, bytes);
const fromResponse = (message: EnvironmentResponse): Buffer =>
  asBuffer(toBinary(EnvironmentResponseSchema, message));
const toResponse = (bytes: Buffer): EnvironmentResponse =>
  fromBinary(EnvironmentResponseSchema, bytes);

/** @grpc/grpc-js on both sides with the messages of protobuf-es. */
export const grpcJs: Peer = {
  async serve(load) {
    const server = new Server(unlimited);
    const process: handleBidiStreamingCall<EnvironmentRequest, EnvironmentResponse> = (call) => {
      const game = load.generatedGame();
      call.on("data", (request: EnvironmentRequest) => {
        call.write(answerGenerated(game, request));
      });
      call.on("end", () => call.end());
    };
    server.addService(
      {
        process: {
          path,
          requestStream: true,
          responseStream: true,
          requestSerialize: fromRequest,
          requestDeserialize: toRequest,
          responseSerialize: fromResponse,
          responseDeserialize: toResponse,
        },
      },
      { process },
    );
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    return { port, close: async () => server.forceShutdown() };
  },

  async connect(load, port) {
    return agent(load, port);
  },
};

function agent(load: Load, port: number): Agent {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    ...unlimited,
    // Connections of its own, like the other contenders.
    "grpc.use_local_subchannel_pool": 1,
  });
  const call = client.makeBidiStreamRequest(path, fromRequest, toResponse);
  let asked = 0;
  let tick = 0;
  let closing = false;
  const agent = pacedAgent(
    (count) => {
      for (let i = 0; i < count; i++) {
        call.write(generatedRequest(moveAt(asked), load.observations));
        asked += 1;
      }
    },
    async () => {
      closing = true;
      call.end();
      client.close();
    },
  );
  call.on("data", (response: EnvironmentResponse) => {
    tick += 1;
    try {
      load.checkGenerated(tick, response);
    } catch (error) {
      agent.failed(error as Error);
      return;
    }
    agent.answered(1);
  });
  call.on("error", (error) => {
    if (!closing) {
      agent.failed(error);
    }
  });
  return agent;
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
