// SPDX-License-Identifier: Apache-2.0
import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { type Any, AnySchema } from "@bufbuild/protobuf/wkt";
import { DmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import { decodeMessage, type Limits } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "./agent.ts";
import type { Awaitable } from "./awaitable.ts";
import type { Role } from "./roles.ts";

/** Sender of an extension message. */
export interface ExtensionContext {
  /** The world that the connection has joined, if any. */
  readonly worldName: string | undefined;
  readonly agent: AgentId | undefined;
  /** Roles of the connection, which an extension checks itself. */
  readonly roles: ReadonlySet<Role>;
}

/** A custom message that a server or a world answers. */
export interface Extension {
  /** Full name of the request's message type. */
  readonly typeName: string;
  /** @throws DmEnvRpcError, which the client receives. */
  answer(request: Any, context: ExtensionContext): Awaitable<Any>;
}

/**
 * Defines the answer to a message type that clients may send as an extension. If `answer` throws a
 * DmEnvRpcError, the client receives it. The message must fit the default limits of
 * `decodeMessage`.
 */
export function extension<I extends DescMessage, O extends DescMessage>(
  input: I,
  output: O,
  answer: (request: MessageShape<I>, context: ExtensionContext) => Awaitable<MessageInitShape<O>>,
): Extension {
  return {
    typeName: input.typeName,
    async answer(request, context) {
      return packMessage(output, await answer(readMessage(input, request), context));
    },
  };
}

/** Packs a message as an Any. */
export function packMessage<T extends DescMessage>(type: T, message: MessageInitShape<T>): Any {
  return create(AnySchema, {
    typeUrl: `type.googleapis.com/${type.typeName}`,
    value: toBinary(type, create(type, message)),
  });
}

/**
 * Reads the message in an Any.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the Any does not contain an encoded message of that
 * type.
 * @throws TensorError `limit` if the message exceeds the limits.
 */
export function readMessage<I extends DescMessage>(
  input: I,
  request: Any,
  limits?: Limits,
): MessageShape<I> {
  try {
    return decodeMessage(input, request.value, limits);
  } catch (error) {
    if (isTensorError(error) && error.reason === "limit") {
      throw error;
    }
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `extension malformed: expected an encoded ${input.typeName}, received bytes that do not decode: ${String(error)}`,
      { cause: error },
    );
  }
}

/** Returns the full name of the message type in an Any. */
export function typeNameOf({ typeUrl }: Any): string {
  return typeUrl.slice(typeUrl.lastIndexOf("/") + 1);
}
