// SPDX-License-Identifier: Apache-2.0
import { connectDefaults, connectPlain } from "./connect.ts";
import { http2Echo, tcpEcho } from "./floors.ts";
import { grpcJs } from "./grpc-js.ts";
import { http2Idle, idle } from "./idle.ts";
import { neverReads } from "./never-reads.ts";
import { inProcess, ours, oursEach } from "./ours.ts";
import type { Peer } from "./peer.ts";

/** The peers that run in Node, by name. */
export const peers = {
  ours,
  "ours-each": oursEach,
  "in-process": inProcess,
  connect: connectPlain,
  "connect-defaults": connectDefaults,
  "grpc-js": grpcJs,
  idle,
  "http2-idle": http2Idle,
  "never-reads": neverReads,
  "http2-echo": http2Echo,
  "tcp-echo": tcpEcho,
} as const satisfies Record<string, Peer>;

/** The name of a peer in Node. */
export type PeerName = keyof typeof peers;
