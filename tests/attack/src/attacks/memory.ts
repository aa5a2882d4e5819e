// SPDX-License-Identifier: Apache-2.0
// Attacks on a server's memory: requests that must wait, and responses that the attacker never reads.
import { gzipSync } from "node:zlib";
import {
  field,
  frameFlags,
  frameTypes,
  grpcFrame,
  http2Frame,
  incompleteFrame,
  literalHeader,
} from "@dm-env-rpc/tests-processes";
import { openSocket, type Peer, processPath, settingIds } from "../wire/peer.ts";
import {
  createOn,
  createWith,
  joinOn,
  joinOwn,
  requestOf,
  stepFor,
  tensorFields,
} from "../wire/requests.ts";
import { openWebSocket, webSocketFrame, webSocketOpcodes } from "../wire/web-socket.ts";
import { type Attack, type Attacks, hold, persist, reopen, times } from "./attack.ts";
import { manySettings } from "./messages.ts";

const mebibyte = 1024 * 1024;

/** Streams of each connection: slightly fewer than maxStreamsPerConnection. */
const streams = 250;

/** Options of a client whose windows are closed, so that responses stay with the server. */
const closedWindow = { settings: [[settingIds.initialWindowSize, 0] as const] };

/** Fills streams with requests, on connections whose windows are closed. */
function unread(
  connections: number,
  path: string,
  requestOfStream: (peer: Peer, stream: number) => Promise<Uint8Array | undefined>,
): Attack {
  return () => (target) =>
    hold(
      target,
      connections,
      async (peer) => {
        const all = Array.from({ length: streams }, async () => {
          const stream = await peer.call(path);
          const request = await requestOfStream(peer, stream);
          if (request === undefined) {
            return;
          }
          const framed = grpcFrame(request);
          const bytes = times(Math.ceil(65_536 / framed.length), framed);
          while (await peer.send(stream, bytes)) {
            // Until the server stops reading, or the stream, the connection or the attack ends.
          }
        });
        await Promise.all(all);
      },
      closedWindow,
    );
}

/** Joins a world with a silent agent and with the agent of `stream`, whose steps therefore wait. */
async function joinWaiting(peer: Peer, stream: number): Promise<boolean> {
  const silent = await peer.call();
  const world = await createOn(peer, silent);
  if (world === undefined || (await joinOn(peer, silent, world)) === undefined) {
    return false;
  }
  if ((await joinOn(peer, stream, world)) === undefined) {
    return false;
  }
  return await peer.request(stream, stepFor([]));
}

/** Fills streams with requests that wait behind a first step, which itself waits for a silent agent. */
function waiting(
  connections: number,
  pairs: number,
  bodyOf: () => Uint8Array,
  extra?: Buffer,
  flags = 0,
): Attack {
  return () => {
    const framed = grpcFrame(bodyOf(), flags);
    return (target) =>
      hold(target, connections, async (peer) => {
        const all = Array.from({ length: pairs }, async () => {
          const stream = await peer.call(processPath, undefined, extra);
          if (await joinWaiting(peer, stream)) {
            while (await peer.send(stream, framed)) {
              // Until the server stops reading, or the stream, the connection or the attack ends.
            }
          }
        });
        await Promise.all(all);
      });
  };
}

/**
 * Sends a request on each new stream, waits until the server has answered, and resets the streams with NO_ERROR. The
 * answers wait with the server, because the windows are closed. No stream stays open long, so maxStreamsPerConnection
 * does not limit them.
 */
function resetWhileWaiting(path: string, request: Uint8Array, contentType?: string): Attack {
  return () => (target) =>
    persist(
      target,
      4,
      async (peer) => {
        while (peer.isOpen) {
          const ids: number[] = [];
          for (let i = 0; i < 100 && peer.isOpen; i++) {
            const id = await peer.call(path, contentType);
            await peer.send(id, request);
            ids.push(id);
          }
          await peer.pong();
          const resets = ids.map((id) => http2Frame(frameTypes.rstStream, 0, id, Buffer.alloc(4)));
          await peer.write(Buffer.concat(resets));
        }
      },
      closedWindow,
    );
}

const checkPath = "/grpc.health.v1.Health/Check";
const reflectionPath = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const gzip = literalHeader("grpc-encoding", "gzip");

/** Attacks on a server's memory. */
export const memory: Attacks = {
  "zero window: lists of properties that are never read": unread(4, processPath, async () =>
    requestOf("listProperty"),
  ),
  "zero window: errors that are never read": unread(4, processPath, async () =>
    requestOf("joinWorld", field(1, Buffer.alloc(200, "w"))),
  ),
  "zero window: reflection that is never read": unread(4, reflectionPath, async () =>
    field(4, Buffer.from("dm_env_rpc.v1.Environment")),
  ),
  "reflection with requests of 60 KB that is never read": unread(4, reflectionPath, async () =>
    field(3, Buffer.alloc(60_000, "f")),
  ),

  "deaf: 500 agents that step for pictures and never read": () => (target) =>
    hold(target, 4, async (peer) => {
      const joins = Array.from({ length: 125 }, () => joinOwn(peer, { height: 32, width: 32 }));
      const joined = await Promise.all(joins);
      peer.socket.pause();
      const all = joined.map(async (agent) => {
        const bytes = agent && times(200, grpcFrame(stepFor(agent.observations)));
        while (agent && bytes && (await peer.send(agent.stream, bytes))) {
          // Until the window is full, or the stream, the connection or the attack ends.
        }
      });
      await Promise.all(all);
    }),

  "deaf: 2,000 streams of creates that are never read": () => (target) =>
    hold(target, 8, async (peer) => {
      const ids: number[] = [];
      for (let i = 0; i < streams && peer.isOpen; i++) {
        ids.push(await peer.call());
      }
      peer.socket.pause();
      const bytes = times(1_000, grpcFrame(requestOf("createWorld")));
      const all = ids.map(async (id) => {
        while (await peer.send(id, bytes)) {
          // Until the window is full, or the stream, the connection or the attack ends.
        }
      });
      await Promise.all(all);
    }),

  "ends of sequences that 1,000 agents on large boards never receive": () => (target) =>
    hold(target, 4, async (peer) => {
      const host = await peer.call();
      const board = { height: 128, width: 128, max_agents: streams };
      const world = await createOn(peer, host, board);
      if (world === undefined) {
        return;
      }
      const joins = Array.from({ length: streams }, async () =>
        joinOn(peer, await peer.call(), world),
      );
      const agents = await Promise.all(joins);
      const firstSteps = agents.map(async (agent) => {
        if (agent !== undefined && (await peer.request(agent.stream, stepFor([])))) {
          await peer.answer(agent.stream);
        }
      });
      await Promise.all(firstSteps);
      await peer.request(host, requestOf("resetWorld", field(1, Buffer.from(world))));
      const [leaving] = agents;
      if (leaving !== undefined) {
        await peer.request(leaving.stream, requestOf("leaveWorld"));
      }
    }),

  "steps of 16 KB behind a step that waits, 500 streams": waiting(4, 125, () =>
    requestOf(
      "step",
      field(1, field(2, field(tensorFields.uint8s, field(1, Buffer.alloc(16_000))))),
    ),
  ),
  "creates of 900 KB behind a step that waits, 500 streams": waiting(4, 125, () =>
    createWith(field(tensorFields.uint8s, field(1, Buffer.alloc(900_000)))),
  ),
  "creates of 65,000 settings behind a step that waits, 140 streams": waiting(2, 70, manySettings),
  "creates of 60 MiB in gzip behind a step that waits, 100 streams": waiting(
    1,
    100,
    () => gzipSync(createWith(field(tensorFields.uint8s, field(1, Buffer.alloc(60 * mebibyte))))),
    gzip,
    1,
  ),

  "messages of 60 MiB that stop after 58 MiB, 120 streams": () => {
    const part = incompleteFrame(60 * mebibyte, 58 * mebibyte);
    return (target) =>
      hold(target, 4, async (peer) => {
        const all = Array.from({ length: 30 }, async () => {
          await peer.send(await peer.call(), part);
        });
        await Promise.all(all);
      });
  },
  "messages of 60 MiB that stop after 1 KB, 1,000 streams": () => {
    const part = incompleteFrame(60 * mebibyte, 1000);
    return (target) =>
      hold(target, 4, async (peer) => {
        for (let i = 0; i < streams && peer.isOpen; i++) {
          await peer.send(await peer.call(), part);
        }
      });
  },
  "requests by Connect that stop after 900 KB, 1,000 streams": () => {
    const part = incompleteFrame(1_000_000, 900_000);
    return (target) =>
      hold(target, 4, async (peer) => {
        const all = Array.from({ length: streams }, async () => {
          await peer.send(await peer.call(processPath, "application/connect+proto"), part);
        });
        await Promise.all(all);
      });
  },
  "requests in JSON that stop one byte early, 10,000 streams": () => {
    const part = Buffer.alloc(5 + 249_999, " ");
    part.writeUIntBE(250_000, 0, 5);
    return (target) =>
      hold(target, 40, async (peer) => {
        const all = Array.from({ length: streams }, async () => {
          await peer.send(await peer.call(processPath, "application/connect+json"), part);
        });
        await Promise.all(all);
      });
  },
  "health checks that do not end, 10,000 streams": () => {
    const request = grpcFrame(Buffer.alloc(60_000));
    return (target) =>
      hold(target, 40, async (peer) => {
        const all = Array.from({ length: streams }, async () => {
          await peer.send(await peer.call(checkPath), request);
        });
        await Promise.all(all);
      });
  },
  "HTTP/1.1 bodies that stop one byte early, 500 connections": () => {
    const head = `POST ${checkPath} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n`;
    const part = Buffer.concat([Buffer.from(head), Buffer.alloc(59_999, " ")]);
    return (target) =>
      reopen(
        target,
        500,
        () => openSocket(target),
        async (socket) => {
          const closed = new Promise((resolve) => socket.resume().once("close", resolve));
          socket.write(part);
          await Promise.race([closed, target.over]);
        },
      );
  },
  "headers of 14 KB on 1,000 streams that stay open": () => {
    const extra = Buffer.concat(
      Array.from({ length: 14 }, (_, i) => literalHeader(`x-${i}`, "h".repeat(1_000))),
    );
    return (target) =>
      hold(target, 4, async (peer) => {
        for (let i = 0; i < streams && peer.isOpen; i++) {
          await peer.call(processPath, undefined, extra);
        }
      });
  },
  "1,000 health watches that are never read": () => {
    const body = grpcFrame(Buffer.alloc(0));
    return (target) =>
      hold(
        target,
        4,
        async (peer) => {
          for (let i = 0; i < streams && peer.isOpen; i++) {
            await peer.send(
              await peer.call("/grpc.health.v1.Health/Watch"),
              body,
              frameFlags.endStream,
            );
          }
        },
        closedWindow,
      );
  },
  "zero window: refused requests that are reset without an error while their answers wait":
    resetWhileWaiting("/chess.v1.Board/Move", Buffer.alloc(1), "text/chess"),
  "zero window: streams that are reset without an error while their answers wait":
    resetWhileWaiting(processPath, grpcFrame(requestOf("listProperty"))),
  "200 WebSockets that never read": () => (target) => {
    const creates = times(200, webSocketFrame(webSocketOpcodes.binary, requestOf("listProperty")));
    return Promise.all(
      Array.from({ length: 200 }, async () => {
        const socket = await openWebSocket(target, processPath);
        socket?.pause();
        await socket?.pour(creates);
        await target.over;
      }),
    );
  },
};
