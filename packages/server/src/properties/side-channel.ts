// SPDX-License-Identifier: Apache-2.0

import type { Any } from "@bufbuild/protobuf/wkt";
import { PropertyRequestSchema, PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import {
  type Extension,
  type ExtensionContext,
  packMessage,
  readMessage,
  typeNameOf,
} from "../definition/extension.ts";
import type { PropertyTree } from "../definition/property.ts";
import { mayListWorlds, type Roles } from "../definition/roles.ts";
import type { JoinedWorld } from "../engine/hosted-world.ts";
import type { TensorLimits } from "../engine/tensor-limits.ts";
import { callForClient, nameOf, type Question } from "./author-questions.ts";
import { answerLegacyRequest, type LegacyPropertyRequest } from "./legacy-requests.ts";
import { indexProperties, type PropertyLayer } from "./property-index.ts";
import { answerPropertyRequest, type PropertyContext } from "./property-requests.ts";
import { worldLayer } from "./world-layer.ts";

/** Answers property requests and extension messages. */
export interface SideChannel {
  /**
   * Answers an extension message, or a property request of a 1.0.x peer.
   *
   * @throws DmEnvRpcError, TensorError if the request is refused.
   */
  answer(
    request: { readonly case: "extension"; readonly value: Any } | LegacyPropertyRequest,
    world: JoinedWorld | undefined,
    agent: AgentId | undefined,
    roles: Roles,
  ): Promise<ProcessResponse>;
}

/** Options of a side channel. */
export interface SideChannelOptions {
  /**
   * Returns the properties of the server, including the built-in ones.
   *
   * @param mayList True for connections that may read the names of the worlds.
   */
  readonly properties: (mayList: boolean) => PropertyTree;
  /** True if agents join without a join token. */
  readonly canJoinWithoutToken: boolean;
  readonly extensions: readonly Extension[];
  readonly limits: TensorLimits & { readonly stepMs: number; readonly maxMessageWork: number };
  readonly time: TimeSource;
  /**
   * Reports the failure of an author's function.
   *
   * @param worldName Undefined for a function of the server.
   */
  readonly onFault: (worldName: string | undefined, question: Question, error: unknown) => void;
}

/** Creates the side channel of a server. */
export function createSideChannel(options: SideChannelOptions): SideChannel {
  const universal = serverLayer(options, true);
  /** For connections that may not read the names of the worlds. */
  const restricted = serverLayer(options, false);
  const extensions = byTypeName(options.extensions);
  const worldLayers = new WeakMap<JoinedWorld, PropertyLayer>();
  const layerOf = (world: JoinedWorld): PropertyLayer => {
    const known = worldLayers.get(world);
    if (known !== undefined) {
      return known;
    }
    const made = worldLayer(world, (question, error) =>
      options.onFault(world.name, question, error),
    );
    worldLayers.set(world, made);
    return made;
  };

  return {
    async answer(request, world, agent, roles) {
      const ofServer = mayListWorlds(roles, options.canJoinWithoutToken) ? universal : restricted;
      const context: PropertyContext = {
        layers: world === undefined ? [ofServer] : [layerOf(world), ofServer],
        agent,
        roles,
        limits: options.limits,
      };
      if (request.case !== "extension") {
        return await answerLegacyRequest(request, context);
      }
      const typeName = typeNameOf(request.value);
      if (typeName === PropertyRequestSchema.typeName) {
        const asked = readMessage(PropertyRequestSchema, request.value, options.limits);
        const value = packMessage(
          PropertyResponseSchema,
          await answerPropertyRequest(asked, context),
        );
        return { case: "extension", value };
      }
      const from: ExtensionContext = { worldName: world?.name, agent, roles };
      const question: Question = { of: "extensions", name: typeName, mayChange: true };
      const ofThisWorld = world?.author.extensions ?? [];
      const ofWorld = ofThisWorld.findLast((known) => known.typeName === typeName);
      if (world !== undefined && ofWorld !== undefined) {
        const value = await layerOf(world).call(question, () =>
          ofWorld.answer(request.value, from),
        );
        return { case: "extension", value };
      }
      const extension = extensions.get(typeName);
      if (extension !== undefined) {
        const value = await ofServer.call(question, () => extension.answer(request.value, from));
        return { case: "extension", value };
      }
      const known = ofThisWorld.map((other) => other.typeName);
      throw unknownExtension(typeName, [...known, ...extensions.keys()]);
    },
  };
}

/** Returns the property layer of a server; author calls of this layer run concurrently. */
function serverLayer(
  { properties, limits, time, onFault }: SideChannelOptions,
  mayList: boolean,
): PropertyLayer {
  return {
    index: indexProperties(properties(mayList)),
    call: <T>(question: Question, run: () => Awaitable<T>) =>
      new Promise<T>((resolve, reject) => {
        const cancel = time.after(limits.stepMs, () => reject(overdue(question, limits.stepMs)));
        const answer = async (): Promise<T> =>
          await callForClient(question, run, (failed, error) => onFault(undefined, failed, error));
        answer().then(resolve, reject).finally(cancel);
      }),
  };
}

function overdue(question: Question, stepMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the ${nameOf(question)} did not answer within ${stepMs} ms (limit: stepMs); try again later`,
  );
}

/** Returns extensions by the message type that they answer. */
function byTypeName(extensions: readonly Extension[]): ReadonlyMap<string, Extension> {
  return new Map(extensions.map((known) => [known.typeName, known]));
}

function unknownExtension(typeName: string, known: readonly string[]): DmEnvRpcError {
  const names = [PropertyRequestSchema.typeName, ...known].join(", ");
  return new DmEnvRpcError(
    "UNIMPLEMENTED",
    `unknown extension "${typeName.slice(0, 200)}": expected one of ${names}`,
  );
}
