// SPDX-License-Identifier: Apache-2.0
import type { Settings } from "@dm-env-rpc/tensor-codec";
import { packSettings, type SpecTable, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse, Uid } from "@dm-env-rpc/tensor-codec/wire";
import { type ConnectOptions, connect, type StreamTarget } from "../connection/connect.ts";
import { tablesOf } from "../environment/join-specs.ts";
import {
  type BothTables,
  compareResponses,
  type ResponseDifference,
  worldNameOf,
} from "./compare.ts";
import { type RecordingSource, readRecording } from "./read-file.ts";

/** Options of `replay`. */
export interface ReplayOptions extends ConnectOptions {
  /** Settings that replace recorded ones in every create, such as another seed. */
  readonly createSettings?: Settings | undefined;
  /** Time limit of each response, in ms. Default 60,000. */
  readonly timeoutMs?: number | undefined;
}

/** First difference between a replay and its recording. */
export interface ReplayDifference extends ResponseDifference {
  /** Number of the request whose response differs, from 0. */
  readonly request: number;
  readonly kind: ProcessRequest["case"];
  /** Number of the step, from 0; undefined if the request is not a step. */
  readonly step: number | undefined;
}

/** Result of a replay. */
export interface ReplayResult {
  /** Number of requests sent. */
  readonly requests: number;
  readonly steps: number;
  /** First difference, after which the replay ends; undefined if all responses are the same. */
  readonly difference: ReplayDifference | undefined;
}

const defaultTimeoutMs = 60_000;

/**
 * Sends the requests of a recording, one after another, and compares each response with the
 * recorded one. World names and UIDs may differ. A request without a recorded response ends the
 * replay.
 *
 * @throws DmEnvRpcError DATA_LOSS for a damaged recording; of origin `connection` if the server
 *   cannot be reached or is lost; DEADLINE_EXCEEDED if it does not answer in time.
 *
 * @example
 * const { difference } = await replay("episode.dmenv", "localhost:8980");
 * if (difference !== undefined) {
 *   console.log(`the response to request ${difference.request} differs`);
 * }
 */
export async function replay(
  source: RecordingSource,
  target: string | StreamTarget,
  options: ReplayOptions = {},
): Promise<ReplayResult> {
  const { createSettings, timeoutMs = defaultTimeoutMs, ...connecting } = options;
  await using connection = await connect(target, connecting);
  let answer: ProcessResponse | undefined;
  connection.observe({
    onRequest: () => {},
    onResponse: (response) => {
      answer = response;
    },
  });
  const worlds = new Map<string, string>();
  let tables: BothTables | undefined;
  let requests = 0;
  let steps = 0;
  for await (const [recorded, expected] of exchanges(source)) {
    const request = translate(recorded, worlds, tables, createSettings);
    answer = undefined;
    await connection.send(request, { timeoutMs }).catch((error: unknown) => {
      // An error Status is a response, too.
      if (answer?.case !== "error") {
        throw error;
      }
    });
    const received: ProcessResponse = answer ?? { case: undefined };
    const found = compareResponses(expected, received, tables);
    if (found !== undefined) {
      const step = recorded.case === "step" ? steps : undefined;
      const difference = { ...found, request: requests, kind: recorded.case, step };
      return { requests: requests + 1, steps: steps + (step === undefined ? 0 : 1), difference };
    }
    requests++;
    if (recorded.case === "step") {
      steps++;
    }
    const [was, is] = [worldNameOf(expected), worldNameOf(received)];
    if (was !== undefined && is !== undefined) {
      worlds.set(was, is);
    }
    tables = nextTables(expected, received) ?? tables;
  }
  return { requests, steps, difference: undefined };
}

/** Yields each recorded request with its response; both are recorded in the same order. */
async function* exchanges(
  source: RecordingSource,
): AsyncGenerator<readonly [ProcessRequest, ProcessResponse], void, void> {
  const open: ProcessRequest[] = [];
  for await (const entry of readRecording(source)) {
    if (entry.case === "request") {
      open.push(entry.value);
    } else if (entry.case === "response") {
      const request = open.shift();
      if (request !== undefined) {
        yield [request, entry.value];
      }
    }
  }
}

/** Replaces the recorded world names, UIDs and settings of a request with the current ones. */
function translate(
  request: ProcessRequest,
  worlds: ReadonlyMap<string, string>,
  tables: BothTables | undefined,
  createSettings: Settings | undefined,
): ProcessRequest {
  const worldOf = (name: string): string => worlds.get(name) ?? name;
  switch (request.case) {
    case "createWorld": {
      const { settings: recorded } = request.value;
      const specs = Object.entries(recorded).map(([name, setting]) => {
        const { dtype, shape } = unpackTensor(setting);
        return [name, { dtype, shape }] as const;
      });
      // A replaced setting keeps its recorded dtype.
      const replaced = packSettings(createSettings ?? {}, Object.fromEntries(specs), {
        allowDots: true,
      });
      const settings = { ...recorded, ...replaced };
      return { case: "createWorld", value: { ...request.value, settings } };
    }
    case "joinWorld":
      return {
        case: "joinWorld",
        value: { ...request.value, worldName: worldOf(request.value.worldName) },
      };
    case "destroyWorld":
      return {
        case: "destroyWorld",
        value: { ...request.value, worldName: worldOf(request.value.worldName) },
      };
    case "resetWorld":
      return {
        case: "resetWorld",
        value: { ...request.value, worldName: worldOf(request.value.worldName) },
      };
    case "step": {
      if (tables === undefined) {
        return request;
      }
      const { expected, received } = tables;
      const { actions, requestedObservations } = request.value;
      return {
        case: "step",
        value: {
          actions: actions.map(({ uid, tensor }) => ({
            uid: sameName(uid, expected.actions, received.actions),
            tensor,
          })),
          requestedObservations: requestedObservations.map((uid) =>
            sameName(uid, expected.observations, received.observations),
          ),
        },
      };
    }
    default:
      return request;
  }
}

function sameName(uid: Uid, expected: SpecTable, received: SpecTable): Uid {
  const name = expected.byUid.get(uid)?.name;
  return (name === undefined ? undefined : received.byName.get(name)?.uid) ?? uid;
}

function nextTables(expected: ProcessResponse, received: ProcessResponse): BothTables | undefined {
  if (expected.case !== "joinWorld" && expected.case !== "reset") {
    return undefined;
  }
  if (received.case !== "joinWorld" && received.case !== "reset") {
    return undefined;
  }
  return { expected: tablesOf(expected.value.specs), received: tablesOf(received.value.specs) };
}
