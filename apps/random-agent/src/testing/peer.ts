// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, flattenSpecs, packFor, type Specs } from "@dm-env-rpc/tensor-codec";
import { packSpecs, packStatus, specTable } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { type RawServer, rawServer } from "@dm-env-rpc/tests-processes";

/** The world of a peer, "arena", with sequences of `sequenceLength` steps. */
export interface PeerOptions {
  readonly actions: Specs;
  readonly sequenceLength: number;
  /** Called for every request. A thrown error becomes the response; "silence" suppresses it. */
  readonly onRequest?:
    | ((request: ProcessRequest, agent: number) => "silence" | undefined)
    | undefined;
}

/** A server of one world. */
export interface RunningPeer extends RawServer {
  /** Requests of each stream, in the order of the streams. */
  readonly requests: ProcessRequest[][];
}

const running = 1;
const terminated = 2;

/** Serves on a free port of 127.0.0.1. */
export async function startPeer(options: PeerOptions): Promise<RunningPeer> {
  const requests: ProcessRequest[][] = [];
  const server = await rawServer(() => {
    const seen: ProcessRequest[] = [];
    const agent = requests.push(seen) - 1;
    const answer = worldOf(options);
    return (request) => {
      seen.push(request);
      try {
        return options.onRequest?.(request, agent) ?? answer(request);
      } catch (error) {
        if (error instanceof DmEnvRpcError) {
          return { case: "error", value: packStatus(error) };
        }
        throw error;
      }
    };
  });
  return { ...server, requests };
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
        if (request.value.worldName !== "arena") {
          throw new DmEnvRpcError("NOT_FOUND", `no world "${request.value.worldName}"`);
        }
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
