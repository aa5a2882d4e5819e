// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  DestroyWorldRequestSchema,
  EnvironmentStateType,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
  ResetRequestSchema,
  ResetWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { pack, type Tensor, toNested, unpack } from "@dm-env-rpc/tensor-codec";
import { packSettings, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { type Answer, observationNames, type Request } from "./requests.ts";

/** UIDs that the specs do not contain. */
const unknownUid = 999;

/** UIDs in the world under test: actions are numbered from 1, and so are observations. */
const addUid = 1;
const sleepUid = 2;

/** A request as it is sent. */
export function toMessage(request: Request): ProcessRequest {
  switch (request.kind) {
    case "create":
      return {
        case: "createWorld",
        value: create(CreateWorldRequestSchema, createFields(request)),
      };
    case "join": {
      const { width, key } = request;
      const settings = packSettings({
        ...(width === "bad" ? { nonsense: 1 } : { width }),
        ...(key === undefined ? {} : { seat_key: key }),
      });
      const worldName = request.world?.name ?? "nowhere";
      return { case: "joinWorld", value: create(JoinWorldRequestSchema, { worldName, settings }) };
    }
    case "step":
      return { case: "step", value: stepFields(request) };
    case "reset": {
      const { width } = request;
      const values = width === "none" ? {} : { width: width === "bad" ? "wide" : width };
      const settings = packSettings(values);
      return { case: "reset", value: create(ResetRequestSchema, { settings }) };
    }
    case "resetWorld": {
      const { start, world } = request;
      const values = start === "none" ? {} : start === "bad" ? { nonsense: 1 } : { start };
      const fields = { worldName: world?.name ?? "nowhere", settings: packSettings(values) };
      return { case: "resetWorld", value: create(ResetWorldRequestSchema, fields) };
    }
    case "leave":
      return { case: "leaveWorld", value: create(LeaveWorldRequestSchema) };
    case "destroy": {
      const worldName = request.world?.name ?? "nowhere";
      return { case: "destroyWorld", value: create(DestroyWorldRequestSchema, { worldName }) };
    }
    case "nothing":
      return { case: undefined };
  }
}

function createFields({ settings }: Extract<Request, { kind: "create" }>) {
  return { settings: packSettings(settings === "bad" ? { length: 0 } : { ...settings }) };
}

function stepFields({ action, sleep, requested }: Extract<Request, { kind: "step" }>) {
  const actions = [];
  if (action !== "none") {
    const uid = action === "unknown" ? unknownUid : addUid;
    const add = typeof action === "number" ? action : 5000;
    actions.push({ uid, tensor: pack(add, { dtype: "int32" }) });
  }
  if (sleep > 0) {
    actions.push({ uid: sleepUid, tensor: pack(sleep, { dtype: "int32" }) });
  }
  const requestedObservations =
    requested === "unknown"
      ? [unknownUid]
      : requested.map((name) => observationNames.indexOf(name) + 1);
  return { actions, requestedObservations };
}

/** Converts a response to the model's terms. */
export function toAnswer(response: ProcessResponse): Answer {
  switch (response.case) {
    case "error":
      return { kind: "error", code: response.value.code };
    case "step": {
      const { state, observations } = response.value;
      return {
        kind: "step",
        state: stateName(state),
        observations: Object.fromEntries(
          observations.map(({ uid, tensor }) => [
            observationNames[Number(uid) - 1],
            toNested(unpack(tensor) as Tensor) as number,
          ]),
        ),
      };
    }
    case "joinWorld":
    case "reset": {
      const { specs } = response.value;
      if (specs === undefined) {
        throw new Error("a response without specs");
      }
      const row = unpackSpecs(specs).observations.byName.get("row");
      return { kind: response.case, width: row?.spec.shape[0] ?? -1 };
    }
    case "createWorld":
    case "resetWorld":
    case "leaveWorld":
    case "destroyWorld":
      return { kind: response.case };
    default:
      throw new Error(`an answer of the kind ${response.case}`);
  }
}

function stateName(state: EnvironmentStateType): "RUNNING" | "TERMINATED" | "INTERRUPTED" {
  if (state === EnvironmentStateType.RUNNING) {
    return "RUNNING";
  }
  if (state === EnvironmentStateType.TERMINATED) {
    return "TERMINATED";
  }
  if (state === EnvironmentStateType.INTERRUPTED) {
    return "INTERRUPTED";
  }
  throw new Error(`a step was answered with the state ${state}`);
}
