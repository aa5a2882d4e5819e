// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  DestroyWorldRequestSchema,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
  ResetRequestSchema,
  ResetWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import type { Settings } from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import type {
  ProcessRequest,
  ProcessResponse,
  Uid,
  UidTensor,
} from "@dm-env-rpc/tensor-codec/wire";
import type { RawRequest } from "./raw-request.ts";

/** A request of the protocol, or raw bytes instead. */
export type AnyRequest = ProcessRequest | RawRequest;

/** The kinds of requests and of their responses. */
export type Kind = Exclude<ProcessResponse["case"], undefined | "error">;

/** Requests of a kind. */
export type RequestOf<K extends Kind> = Extract<ProcessRequest, { readonly case: K }>;

/** Responses of a kind. */
export type ResponseOf<K extends Kind> = Extract<
  Exclude<ProcessResponse, { readonly case: undefined | "error" }>,
  { readonly case: K }
>;

/** Makes the requests of the protocol. */
export interface Requests {
  createWorld(settings: Settings): RequestOf<"createWorld">;
  join(worldName: string, settings: Settings): RequestOf<"joinWorld">;
  step(requested: readonly Uid[], actions: readonly UidTensor[]): RequestOf<"step">;
  reset(settings?: Settings): RequestOf<"reset">;
  resetWorld(worldName: string, settings?: Settings): RequestOf<"resetWorld">;
  leave(): RequestOf<"leaveWorld">;
  destroyWorld(worldName: string): RequestOf<"destroyWorld">;
}

/** Makes the requests of the protocol. */
export const requests: Requests = {
  createWorld: (settings) => ({
    case: "createWorld",
    value: create(CreateWorldRequestSchema, { settings: packSettings(settings) }),
  }),
  join: (worldName, settings) => ({
    case: "joinWorld",
    value: create(JoinWorldRequestSchema, { worldName, settings: packSettings(settings) }),
  }),
  step: (requestedObservations, actions) => ({
    case: "step",
    value: { actions, requestedObservations },
  }),
  reset: (settings = {}) => ({
    case: "reset",
    value: create(ResetRequestSchema, { settings: packSettings(settings) }),
  }),
  resetWorld: (worldName, settings = {}) => ({
    case: "resetWorld",
    value: create(ResetWorldRequestSchema, { worldName, settings: packSettings(settings) }),
  }),
  leave: () => ({ case: "leaveWorld", value: create(LeaveWorldRequestSchema) }),
  destroyWorld: (worldName) => ({
    case: "destroyWorld",
    value: create(DestroyWorldRequestSchema, { worldName }),
  }),
};
