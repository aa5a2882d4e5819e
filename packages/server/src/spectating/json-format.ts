// SPDX-License-Identifier: Apache-2.0
import { fromJsonString, toJsonString } from "@bufbuild/protobuf";
import type { MessageFormat } from "./shared-message.ts";

/** JSON. Only listeners import it, because it would add 5 KB to a server in a page. */
export const jsonFormat: MessageFormat = {
  read: (schema, bytes) =>
    fromJsonString(schema, new TextDecoder().decode(bytes), { ignoreUnknownFields: true }),
  write: (schema, message) => new TextEncoder().encode(toJsonString(schema, message)),
};
