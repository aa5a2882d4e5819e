// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldResponseSchema,
  DestroyWorldResponseSchema,
  ResetWorldResponseSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { Reply } from "../engine/requests.ts";
import { answer } from "../engine/responses.ts";
import { type TensorLimits, unpackSettings } from "../engine/tensor-limits.ts";
import type { Place } from "./place.ts";
import type { Worlds } from "./worlds.ts";

/** The requests about a world that do not need a seat in it. */
export type WorldRequest = Extract<
  ProcessRequest,
  { case: "createWorld" | "resetWorld" | "destroyWorld" }
>;

/** The server, as these requests use it. */
export interface WorldRequestsHost extends TensorLimits {
  readonly worlds: Worlds;
}

/**
 * Answers a request about a world.
 *
 * @param joined The place of the caller, if it has joined a world.
 * @throws DmEnvRpcError, TensorError if the request is refused at once.
 */
export function handleWorldRequest(
  request: WorldRequest,
  host: WorldRequestsHost,
  joined: Place | undefined,
  reply: Reply,
): void {
  const { worlds } = host;
  switch (request.case) {
    case "createWorld":
      worlds.create(unpackSettings(request.value.settings, host), (result) =>
        answer(reply, result, ({ name: worldName }) => ({
          case: "createWorld",
          value: create(CreateWorldResponseSchema, { worldName }),
        })),
      );
      return;
    case "resetWorld": {
      const { worldName, settings } = request.value;
      const world = worlds.get(worldName, true);
      const caller = joined?.world.name === worldName ? joined : undefined;
      world.resetWorld(caller?.seats ?? [], unpackSettings(settings, host), (result) =>
        answer(reply, result, () => {
          caller?.worldWasReset();
          return { case: "resetWorld", value: create(ResetWorldResponseSchema) };
        }),
      );
      return;
    }
    case "destroyWorld": {
      const { worldName } = request.value;
      const world = worlds.get(worldName, true);
      if (joined?.world.name === worldName) {
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `this connection has joined the world "${worldName}"; leave it before you destroy it`,
        );
      }
      world.destroy((result) =>
        answer(reply, result, () => ({
          case: "destroyWorld",
          value: create(DestroyWorldResponseSchema),
        })),
      );
    }
  }
}
