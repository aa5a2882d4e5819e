// SPDX-License-Identifier: Apache-2.0

import type { Any } from "@bufbuild/protobuf/wkt";
import { PropertyRequestSchema, PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import type { Awaitable } from "../definition/awaitable.ts";
import {
  type Extension,
  type ExtensionContext,
  packMessage,
  readMessage,
  typeNameOf,
} from "../definition/extension.ts";
import type { Seat } from "../engine/seat.ts";
import type { TensorLimits } from "../engine/tensor-limits.ts";
import type { WorldHost } from "../engine/world-host.ts";
import type { Roles } from "../host/authorize.ts";
import type { CallLimits } from "../host/limits.ts";
import { asked, calledIn, type OnFault, type Question } from "./asked.ts";
import { answerLegacyRequest, type LegacyPropertyRequest } from "./legacy-requests.ts";
import type { PropertyTree } from "./property.ts";
import { indexProperties, type PropertyLayer } from "./property-index.ts";
import { answerPropertyRequest, type PropertyContext } from "./property-requests.ts";

/** Everything on a stream that is no agent's life: properties and extensions. */
export interface SideChannel {
  /**
   * Answers an extension message, or a property request of a 1.0.x peer.
   *
   * @throws DmEnvRpcError, TensorError what the client is told.
   */
  answer(
    request: { readonly case: "extension"; readonly value: Any } | LegacyPropertyRequest,
    world: WorldHost | undefined,
    seat: Seat | undefined,
    roles: Roles,
  ): Promise<ProcessResponse>;
}

/** What a side channel is made with. */
export interface SideChannelOptions {
  /** Properties of the server, those that every server has included. */
  readonly properties: PropertyTree;
  readonly extensions: readonly Extension[];
  readonly limits: TensorLimits & Pick<CallLimits, "stepMs">;
  readonly time: TimeSource;
  /** Told what goes wrong in an author's function. */
  readonly onFault: OnFault;
}

/** Makes the side channel of a server. */
export function createSideChannel(options: SideChannelOptions): SideChannel {
  const universal = serverLayer(options);
  const extensions = byTypeName(options.extensions);

  return {
    async answer(request, world, seat, roles) {
      const context: PropertyContext = {
        layers: world === undefined ? [universal] : [world.properties, universal],
        agent: seat?.agent,
        roles,
        limits: options.limits,
      };
      if (request.case !== "extension") return await answerLegacyRequest(request, context);
      const typeName = typeNameOf(request.value);
      if (typeName === PropertyRequestSchema.typeName) {
        const asked = readMessage(PropertyRequestSchema, request.value, options.limits);
        const value = packMessage(
          PropertyResponseSchema,
          await answerPropertyRequest(asked, context),
        );
        return { case: "extension", value };
      }
      const from: ExtensionContext = { worldName: world?.name, agent: seat?.agent, roles };
      const question: Question = { of: "extensions", name: typeName };
      const ofWorld = world?.extensions.get(typeName);
      if (world !== undefined && ofWorld !== undefined) {
        const value = await world.properties.call(question, () =>
          ofWorld.answer(request.value, from),
        );
        return { case: "extension", value };
      }
      const ofServer = extensions.get(typeName);
      if (ofServer !== undefined) {
        const value = await universal.call(question, () => ofServer.answer(request.value, from));
        return { case: "extension", value };
      }
      throw unknownExtension(typeName, [...(world?.extensions.keys() ?? []), ...extensions.keys()]);
    },
  };
}

/** The properties and extensions of a server, which wait for nothing but themselves. */
function serverLayer({ properties, limits, time, onFault }: SideChannelOptions): PropertyLayer {
  return {
    index: indexProperties(properties),
    call: <T>(question: Question, run: () => Awaitable<T>) =>
      new Promise<T>((resolve, reject) => {
        const cancel = time.after(limits.stepMs, () => reject(overdue(question, limits.stepMs)));
        const answer = async (): Promise<T> => await asked(question, run, onFault);
        answer().then(resolve, reject).finally(cancel);
      }),
  };
}

function overdue(question: Question, stepMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the ${calledIn(question)} did not answer within ${stepMs} ms (limit: stepMs); try again later`,
  );
}

/** Extensions by the type that they answer. */
export function byTypeName(extensions: readonly Extension[]): ReadonlyMap<string, Extension> {
  return new Map(extensions.map((known) => [known.typeName, known]));
}

function unknownExtension(typeName: string, known: readonly string[]): DmEnvRpcError {
  const names = [PropertyRequestSchema.typeName, ...known].join(", ");
  return new DmEnvRpcError(
    "UNIMPLEMENTED",
    `this server has no extension "${typeName.slice(0, 200)}"; it has: ${names}`,
  );
}
