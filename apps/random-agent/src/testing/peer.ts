// SPDX-License-Identifier: Apache-2.0
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import {
  DmEnvRpcError,
  flattenSpecs,
  type ProcessRequest,
  type ProcessResponse,
  packFor,
  packSpecs,
  packStatus,
  type Specs,
  specTable,
  type UidTensor,
} from "@dm-env-rpc/tensor-codec";
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";

/** What a peer serves: one world called "arena", of sequences of `sequenceLength` steps. */
export interface PeerOptions {
  readonly actions: Specs;
  readonly sequenceLength: number;
  /** Is told of every request; what it throws is the answer, `false` is no answer. */
  readonly onRequest?: (request: ProcessRequest, agent: number) => false | undefined;
}

/** A server of the protocol that shares nothing with this repository's servers but the bytes of its messages. */
export interface RunningPeer extends AsyncDisposable {
  readonly address: string;
  /** Requests of each stream, in the order of the streams. */
  readonly requests: ProcessRequest[][];
  /** Cuts every connection and stops listening, as a crash does. */
  crash(): void;
}

const running = 1;
const terminated = 2;

/** Serves on a port of 127.0.0.1 that is free. */
export async function startPeer(options: PeerOptions): Promise<RunningPeer> {
  const requests: ProcessRequest[][] = [];
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session)).on("error", () => undefined);
  });
  server.on("stream", (stream) => {
    const seen: ProcessRequest[] = [];
    const agent = requests.push(seen) - 1;
    const answer = worldOf(options);
    serveStream(stream, (request) => {
      seen.push(request);
      try {
        return options.onRequest?.(request, agent) ?? answer(request);
      } catch (error) {
        if (error instanceof DmEnvRpcError) return { case: "error", value: packStatus(error) };
        throw error;
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const bound = server.address();
  const port = typeof bound === "object" ? bound?.port : undefined;
  const crash = (): void => {
    server.close();
    for (const session of sessions) session.destroy();
  };
  return {
    address: `127.0.0.1:${port}`,
    requests,
    crash,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        crash();
      }),
  };
}

/** Answers the length-prefixed messages of one gRPC call. */
function serveStream(
  stream: ServerHttp2Stream,
  answer: (request: ProcessRequest) => ProcessResponse | false,
): void {
  const requestCodec = createRequestCodec();
  const responseCodec = createResponseCodec();
  let bytes = Buffer.alloc(0);
  stream.on("error", () => undefined);
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.on("end", () => stream.end());
  stream.on("data", (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt32BE(1)) {
      const end = 5 + bytes.readUInt32BE(1);
      const request = requestCodec.read(bytes, 5, end);
      bytes = bytes.subarray(end);
      if (request.case === "malformed") throw request.value;
      const response = answer(request);
      if (response === false) continue;
      const size = responseCodec.size(response);
      const message = Buffer.alloc(5 + size);
      message.writeUInt32BE(size, 1);
      responseCodec.write(response, message, 5);
      stream.write(message);
    }
  });
}

function worldOf(options: PeerOptions): (request: ProcessRequest) => ProcessResponse {
  const actions = specTable(flattenSpecs(options.actions));
  const observations = specTable({ reward: { dtype: "float32", shape: [] } });
  const specs = packSpecs({ actions, observations });
  const reward = observations.entries.map(
    ({ name, spec, uid }): UidTensor => ({
      uid,
      tensor: packFor(0.5, spec, name),
    }),
  );
  let tick = options.sequenceLength;
  return (request) => {
    switch (request.case) {
      case "createWorld":
        return {
          case: "createWorld",
          value: { $typeName: "dm_env_rpc.v1.CreateWorldResponse", worldName: "arena" },
        };
      case "joinWorld":
        if (request.value.worldName !== "arena")
          throw new DmEnvRpcError("NOT_FOUND", `no world "${request.value.worldName}"`);
        return {
          case: "joinWorld",
          value: { $typeName: "dm_env_rpc.v1.JoinWorldResponse", specs },
        };
      case "step": {
        tick = tick < options.sequenceLength ? tick + 1 : 0;
        const state = tick < options.sequenceLength ? running : terminated;
        return { case: "step", value: { state, observations: reward } };
      }
      case "leaveWorld":
        return {
          case: "leaveWorld",
          value: { $typeName: "dm_env_rpc.v1.LeaveWorldResponse" },
        };
      case "destroyWorld":
        return {
          case: "destroyWorld",
          value: { $typeName: "dm_env_rpc.v1.DestroyWorldResponse" },
        };
      default:
        throw new DmEnvRpcError("UNIMPLEMENTED", `no ${request.case} here`);
    }
  };
}
