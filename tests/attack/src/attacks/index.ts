// SPDX-License-Identifier: Apache-2.0
import type { Attacks } from "./attack.ts";
import { connections } from "./connections.ts";
import { frames } from "./frames.ts";
import { memory } from "./memory.ts";
import { singleMessages } from "./messages.ts";
import { requests } from "./requests.ts";

/** All attacks, by room. */
export const rooms = {
  frames,
  connections,
  messages: singleMessages,
  requests,
  memory,
} as const satisfies Readonly<Record<string, Attacks>>;

/** The name of a room of attacks. */
export type Room = keyof typeof rooms;

/** Variants of other attacks, which a quick run leaves out. */
export const variants: ReadonlySet<string> = new Set([
  "streams with headers that are invalid",
  "streams of unknown paths",
  "CONTINUATION flood, empty frames",
  "PRIORITY flood on idle streams",
  "WINDOW_UPDATE past the largest window",
  "DATA that is padding",
  "GOAWAY, then 250 streams",
  "a preface, then bytes that are not frames",
  "ghosts that have joined worlds",
  "a setting of 16.7 million unpacked int64",
  "a setting of 16.7 million packed int32",
  "a setting of 60 MB of bytes",
  "a setting with 30 million unpacked dimensions",
  "a setting whose payload is given 30 million times",
  "30 million settings without names",
  "a property written with 16.7 million unpacked int32",
  "a list of 30 million properties",
  "the name of a property, 60 MB long",
  "the type of an extension, 60 MB long",
  "30 million unknown fields",
  "60 MB that are not protobuf",
  "a step of 16.7 million unpacked int64",
  "a step of 60 MB of bytes",
  "a step for 60 million observations",
  "a step for 30 million unpacked observations",
  "gzip of a setting of 16.7 million unpacked int32",
  "gzip of a setting with 60 million dimensions",
  "requests without a payload",
  "joins of unknown worlds",
  "extensions that do not exist",
  "resets of own worlds",
  "250 agents in lockstep for large pictures",
  "unary creates by Connect",
  "unary creates by gRPC-Web",
  "unary creates of 65,000 settings by gRPC",
  "unary creates of 65,000 settings by gRPC-Web",
  "calls with an unknown content type",
  "messages in gzip, 16 KB each",
  "health checks of long names",
  "1,000 viewers of the list of worlds, in JSON",
  "WebSockets that open and close",
  "WebSocket pings",
  "WebSocket creates",
  "zero window: errors that are never read",
  "reflection with requests of 60 KB that is never read",
  "deaf: 2,000 streams of creates that are never read",
  "steps of 16 KB behind a step that waits, 500 streams",
  "messages of 60 MiB that stop after 1 KB, 1,000 streams",
  "health checks that do not end, 10,000 streams",
  "headers of 14 KB on 1,000 streams that stay open",
  "1,000 health watches that are never read",
]);
