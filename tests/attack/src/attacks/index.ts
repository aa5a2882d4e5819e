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
