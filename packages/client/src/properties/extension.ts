// SPDX-License-Identifier: Apache-2.0
import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Connection } from "../environment/environment.ts";
import type { WaitOptions } from "../stream/wait.ts";

/** The two messages of an extension. */
export interface Extension<Request extends DescMessage, Response extends DescMessage> {
  readonly request: Request;
  readonly response: Response;
}

/**
 * Sends a message of an extension on a connection's stream and returns the message that answers it.
 *
 * @throws DmEnvRpcError if the server does not support the extension, or refuses; INTERNAL if the
 *   response is another message.
 */
export async function sendExtension<Request extends DescMessage, Response extends DescMessage>(
  connection: Pick<Connection, "send">,
  extension: Extension<Request, Response>,
  message: MessageInitShape<Request>,
  options?: WaitOptions,
): Promise<MessageShape<Response>> {
  const value = anyPack(extension.request, create(extension.request, message));
  const { value: any } = await connection.send({ case: "extension", value }, options);
  const response = anyUnpack(any, extension.response);
  if (response !== undefined) {
    return response;
  }
  throw new DmEnvRpcError(
    "INTERNAL",
    `expected ${extension.response.typeName} as the response to the extension ${extension.request.typeName}, received ${any.typeUrl || "an empty Any"}; the server breaks the extension's contract`,
    { origin: "connection" },
  );
}
