// SPDX-License-Identifier: Apache-2.0
import type { Peer } from "./peer.ts";

/** Loaders of the peers that run in Node: a process loads only the peer that it plays. */
const peers: Readonly<Record<string, () => Promise<Peer>>> = {
  ours: async () => (await import("./ours.ts")).ours,
  "ours-each": async () => (await import("./ours.ts")).oursEach,
  "ours-reuse": async () => (await import("./ours.ts")).oursReusing,
  "ours-websocket": async () => (await import("./ours.ts")).oursWebSocket,
  "batch-slots": async () => (await import("../batch/peers.ts")).batchSlots,
  "batch-arrays": async () => (await import("../batch/peers.ts")).batchArrays,
  "batch-frames": async () => (await import("../batch/peers.ts")).batchFrames,
  "batch-streams": async () => (await import("../batch/peers.ts")).batchStreams,
  "batch-pixels": async () => (await import("../batch/peers.ts")).batchPixels,
  "batch-busy": async () => (await import("../batch/peers.ts")).batchBusy,
  "unix-socket": async () => (await import("../batch/sockets.ts")).unixSocket,
  relayed: async () => (await import("../browser/relayed.ts")).relayed,
  viewers: async () => (await import("../browser/viewers.ts")).viewers,
  "in-process": async () => (await import("./ours.ts")).inProcess,
  idle: async () => (await import("./idle.ts")).idle,
  "never-reads": async () => (await import("./never-reads.ts")).neverReads,
  connect: async () => (await import("./connect.ts")).connectPlain,
  "connect-defaults": async () => (await import("./connect.ts")).connectDefaults,
  "grpc-js": async () => (await import("./grpc-js.ts")).grpcJs,
  "http2-idle": async () => (await import("./http2-idle.ts")).http2Idle,
  "http2-echo": async () => (await import("./floors.ts")).http2Echo,
  "tcp-echo": async () => (await import("./floors.ts")).tcpEcho,
  "vector-steps": async () => (await import("../client/vectors.ts")).vectorSteps,
  "vector-reuses": async () => (await import("../client/vectors.ts")).vectorReuses,
  "vector-sends": async () => (await import("../client/vectors.ts")).vectorSends,
  "connections-in-rounds": async () =>
    (await import("../client/connections.ts")).connectionsInRounds,
  "connections-in-loops": async () => (await import("../client/connections.ts")).connectionsInLoops,
  "environments-in-rounds": async () =>
    (await import("../client/environments.ts")).environmentsInRounds,
  "environments-in-loops": async () =>
    (await import("../client/environments.ts")).environmentsInLoops,
};

/**
 * Loads a peer.
 *
 * @throws Error if the name is unknown.
 */
export async function peerOf(name: string): Promise<Peer> {
  const load = peers[name];
  if (load === undefined) {
    throw new Error(`unknown peer "${name}"`);
  }
  return load();
}
