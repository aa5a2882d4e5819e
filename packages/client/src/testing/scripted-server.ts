// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldResponseSchema,
  DestroyWorldResponseSchema,
  EnvironmentStateType,
  JoinWorldResponseSchema,
  LeaveWorldResponseSchema,
  ResetResponseSchema,
  ResetWorldResponseSchema,
} from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  flattenSpecs,
  type PackedTensor,
  packFor,
  type Specs,
  type StatusCode,
  t,
} from "@dm-env-rpc/tensor-codec";
import { packSpecs, packStatus, specTable } from "@dm-env-rpc/tensor-codec/proto";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { memoryStreamPair, type ServerStream } from "@dm-env-rpc/transport";
import { type ConnectOptions, connect } from "../connection/connect.ts";
import type { Connection } from "../environment/environment.ts";

/** Behaviour of a scripted server: by default a small world of one agent. */
export interface Script {
  readonly actions?: Specs | undefined;
  /** Specs; a function receives the number of resets. */
  readonly observations?: Specs | ((resets: number) => Specs) | undefined;
  /** Number of steps in a sequence after its first step. Default 2. */
  readonly sequenceLength?: number | undefined;
  /** State at the end of a sequence. */
  readonly end?: EnvironmentStateType | undefined;
  /** True if the server keeps its side open when the client ends its own. */
  readonly deaf?: boolean | undefined;
  /**
   * Returns the value of an observation; `tick` counts from 0 in each sequence. Default: the tick for
   * the observation `tick`, and zeros for others.
   */
  observe?(name: string, tick: number): unknown;
  /**
   * Overrides the world's answer to a request. Returns a response, `silence`, or undefined to let the
   * world answer.
   */
  answer?(request: ProcessRequest, server: ScriptedServer): ProcessResponse | "silence" | undefined;
}

/** A scripted server and the requests that it has received. */
export interface ScriptedServer {
  readonly requests: ProcessRequest[];
  readonly stream: ServerStream;
  /** True once the client has ended its side. */
  ended: boolean;
  /** Resolves when the stream has closed. */
  readonly closed: Promise<Error | undefined>;
  /** Resolves once this many requests have arrived. */
  received(count: number): Promise<void>;
}

/** Default observations of a scripted world. */
const plainObservations = { tick: t.int32(), reward: t.float32() } as const;
/** Default actions of a scripted world. */
export const plainActions = { move: t.int32({ min: 0, max: 4 }) } as const;

/** Answers on a server's stream according to the script. */
export function scriptedServer(stream: ServerStream, script: Script = {}): ScriptedServer {
  const requests: ProcessRequest[] = [];
  const awaited: { count: number; resolve: () => void }[] = [];
  const world = scriptedWorld(script);
  let closed: (error: Error | undefined) => void = () => undefined;
  const server: ScriptedServer = {
    requests,
    stream,
    ended: false,
    closed: new Promise((resolve) => {
      closed = resolve;
    }),
    received: (count) =>
      new Promise((resolve) => {
        awaited.push({ count, resolve });
        wake();
      }),
  };
  const wake = (): void => {
    for (const { count, resolve } of awaited) {
      if (requests.length >= count) {
        resolve();
      }
    }
  };
  stream.start({
    onMessage(request: ProcessRequest | Malformed) {
      if (request.case === "malformed") {
        throw request.value;
      }
      requests.push(request);
      const answer = script.answer?.(request, server) ?? world(request);
      if (answer !== "silence") {
        stream.send(answer);
      }
      wake();
    },
    onEnd() {
      server.ended = true;
      if (script.deaf !== true) {
        stream.end();
      }
    },
    onDrain() {},
    onClose: (error) => closed(error),
  });
  return server;
}

/** Connects to a scripted server in this process. */
export async function connected(
  script: Script = {},
  options: ConnectOptions = {},
): Promise<{ connection: Connection; server: ScriptedServer }> {
  const [client, stream] = memoryStreamPair();
  const server = scriptedServer(stream, script);
  return { connection: await connect({ stream: client }, options), server };
}

/** Returns an error Status as a response. */
export function status(code: StatusCode, message: string): ProcessResponse {
  return { case: "error", value: packStatus(new DmEnvRpcError(code, message)) };
}

/** Returns a StepResponse without observations. */
export function stepped(state: EnvironmentStateType): ProcessResponse {
  return { case: "step", value: { state, observations: [] } };
}

/** Returns a script's world as a function from requests to responses. */
export function scriptedWorld(script: Script): (request: ProcessRequest) => ProcessResponse {
  const { sequenceLength = 2, end = EnvironmentStateType.TERMINATED } = script;
  const actions = specTable(flattenSpecs(script.actions ?? plainActions));
  const { observations: given = plainObservations } = script;
  const tableAfter = (resets: number) =>
    specTable(flattenSpecs(typeof given === "function" ? given(resets) : given), 101);
  let resets = 0;
  let observations = tableAfter(0);
  const specs = () => packSpecs({ actions, observations });
  let running = false;
  let tick = 0;
  const observe = (name: string): unknown =>
    script.observe?.(name, tick) ?? (name === "tick" ? tick : 0);
  return (request) => {
    switch (request.case) {
      case "createWorld":
        return {
          case: "createWorld",
          value: create(CreateWorldResponseSchema, { worldName: "world" }),
        };
      case "joinWorld":
        return {
          case: "joinWorld",
          value: create(JoinWorldResponseSchema, { specs: specs() }),
        };
      case "step": {
        tick = running ? tick + 1 : 0;
        running = tick < sequenceLength;
        return {
          case: "step",
          value: {
            state: running ? EnvironmentStateType.RUNNING : end,
            observations: request.value.requestedObservations.map((uid) => {
              const entry = observations.byUid.get(uid);
              if (entry === undefined) {
                throw new Error(`no observation ${uid}`);
              }
              const { name, spec } = entry;
              return { uid, tensor: packFor(observe(name), spec, name) as PackedTensor };
            }),
          },
        };
      }
      case "reset":
        running = false;
        observations = tableAfter(++resets);
        return { case: "reset", value: create(ResetResponseSchema, { specs: specs() }) };
      case "resetWorld":
        running = false;
        return { case: "resetWorld", value: create(ResetWorldResponseSchema) };
      case "leaveWorld":
        running = false;
        return { case: "leaveWorld", value: create(LeaveWorldResponseSchema) };
      case "destroyWorld":
        return { case: "destroyWorld", value: create(DestroyWorldResponseSchema) };
      default:
        return status("UNIMPLEMENTED", `a scripted world does not answer ${request.case}`);
    }
  };
}
