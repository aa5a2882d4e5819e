// SPDX-License-Identifier: Apache-2.0
// Requests without pause, most of them valid, over every protocol that the server speaks.
import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { create as createMessage, toBinary } from "@bufbuild/protobuf";
import { WatchWorldsRequestSchema } from "@dm-env-rpc/protocol/spectator";
import {
  field,
  frameFlags,
  frameTypes,
  grpcFrame,
  headersOfCall,
  http2Frame,
  literalHeader,
} from "@dm-env-rpc/tests-processes";
import { type Peer, processPath } from "../wire/peer.ts";
import { createOn, joinOn, joinOwn, joinWithSeats, requestOf, stepFor } from "../wire/requests.ts";
import {
  openWebSocket,
  type WebSocketPeer,
  webSocketFrame,
  webSocketOpcodes,
} from "../wire/web-socket.ts";
import { type Attack, type Attacks, hold, persist, reopen, times } from "./attack.ts";
import { manySettings } from "./messages.ts";

const { data, headers } = frameTypes;
const { endStream, endHeaders } = frameFlags;

const connections = 4;

/** Requests in one write. */
const batch = 100;

/** Sends the same requests again and again on a stream, and drops the responses. */
function pipelined(requestsOf: (peer: Peer) => Promise<Pipelined | undefined>): Attack {
  return () => (target) =>
    persist(target, connections, async (peer) => {
      const pipeline = await requestsOf(peer);
      if (pipeline === undefined) {
        return;
      }
      const { stream, requests } = pipeline;
      peer.drop(stream);
      const bytes = times(batch, Buffer.concat(requests.map((request) => grpcFrame(request))));
      while (await peer.send(stream, bytes)) {
        // Until the stream, the connection or the attack ends.
      }
    });
}

interface Pipelined {
  readonly stream: number;
  readonly requests: readonly Uint8Array[];
}

/** Sends the given requests again and again on a new stream that has joined no world. */
function onOwnStream(...requests: readonly Uint8Array[]): Attack {
  return pipelined(async (peer) => ({ stream: await peer.call(), requests }));
}

/** Joins agents to one world, and steps all of them for all observations. */
function inLockstep(agents: number, size: Readonly<Record<string, number>>): Attack {
  return () => (target) =>
    persist(target, 1, async (peer) => {
      const host = await peer.call();
      const world = await createOn(peer, host, { ...size, max_agents: agents, min_agents: 1 });
      if (world === undefined) {
        return;
      }
      const play = Array.from({ length: agents }, async () => {
        const stream = await peer.call();
        const joined = await joinOn(peer, stream, world);
        const step = grpcFrame(stepFor(joined?.observations ?? []));
        while (joined !== undefined && (await peer.send(stream, step))) {
          await peer.answer(stream);
        }
      });
      await Promise.all(play);
    });
}

/** Makes calls of one small request each, in batches of 100. */
function calls(path: string, contentType: string, body: Uint8Array): Attack {
  return () => {
    const head = headersOfCall(path, contentType);
    return (target) =>
      persist(target, connections, async (peer) => {
        while (peer.isOpen) {
          const ids = Array.from({ length: batch }, () => peer.newStream());
          const framesOf = (id: number): Buffer =>
            Buffer.concat([
              http2Frame(headers, endHeaders, id, head),
              http2Frame(data, endStream, id, body),
            ]);
          await peer.write(Buffer.concat(ids.map(framesOf)));
          await peer.pong();
        }
      });
  };
}

/** Makes calls of one request, 32 at a time on each connection, and waits for their answers. */
function answeredCalls(contentType: string, bodyOf: () => Uint8Array): Attack {
  return () => {
    const body = bodyOf();
    return (target) =>
      persist(target, connections, async (peer) => {
        while (peer.isOpen) {
          const streams = Array.from({ length: 32 }, async () => {
            const id = await peer.call(processPath, contentType);
            await peer.send(id, body, endStream);
            await peer.ended(id);
          });
          await Promise.all(streams);
        }
      });
  };
}

/** Sends a gzipped message again and again on a stream, and drops the responses. */
function gzipped(bodyOf: () => Uint8Array): Attack {
  return () => {
    const message = grpcFrame(gzipSync(bodyOf()), 1);
    return (target) =>
      persist(target, connections, async (peer) => {
        const encoding = literalHeader("grpc-encoding", "gzip");
        const stream = await peer.call(processPath, undefined, encoding);
        peer.drop(stream);
        while (await peer.send(stream, message)) {
          // Until the stream, the connection or the attack ends.
        }
      });
  };
}

/** Opens 250 streaming calls of one request on each connection, and closes it. */
function watches(path: string, request: Uint8Array): Attack {
  const body = grpcFrame(request);
  return () => (target) =>
    persist(target, 8, async (peer) => {
      for (let i = 0; i < 250 && peer.isOpen; i++) {
        const id = await peer.call(path);
        await peer.send(id, body, endStream);
      }
      peer.destroy();
    });
}

/**
 * Creates 400 worlds, and then makes 1,000 calls that list them as often as possible, from four addresses: one address
 * may have at most `maxSpectatorsPerAddress`, 256.
 */
function listViewers(contentType: string, request: Uint8Array): Attack {
  const body = grpcFrame(request);
  const play = async (peer: Peer): Promise<void> => {
    const stream = await peer.call();
    await peer.send(stream, times(batch, grpcFrame(create)));
    for (let i = 0; i < batch; i++) {
      await peer.answer(stream);
    }
    for (let i = 0; i < 250 && peer.isOpen; i++) {
      const id = await peer.call(`${spectator}/WatchWorlds`, contentType);
      peer.drop(id);
      await peer.send(id, body, endStream);
    }
  };
  return () => (target) =>
    Promise.all(
      Array.from({ length: connections }, (_, i) =>
        hold({ ...target, from: `127.0.0.${10 + i}` }, 1, play),
      ),
    );
}

/** Watches 50 worlds with large pictures, each of which one agent steps without pause. */
function pictureViewers(): Attack {
  return () => (target) =>
    hold(target, 1, async (peer) => {
      const all = Array.from({ length: 50 }, async () => {
        const joined = await joinOwn(peer, { height: 64, width: 64 });
        if (joined === undefined) {
          return;
        }
        const id = await peer.call(`${spectator}/WatchWorld`);
        peer.drop(id);
        await peer.send(id, grpcFrame(field(1, Buffer.from(joined.world))), endStream);
        const step = grpcFrame(stepFor([]));
        while (await peer.send(joined.stream, step)) {
          await peer.answer(joined.stream);
        }
      });
      await Promise.all(all);
    });
}

const spectator = "/spectator.v1.SpectatorService";
const health = "/grpc.health.v1.Health";
const name = field(1, Buffer.from("dm_env_rpc.v1.Environment"));
const longName = field(1, Buffer.alloc(10_000, "s"));

/** Opens WebSockets again and again, and runs `play` on each. */
function webSockets(play: (socket: WebSocketPeer) => Promise<void>): Attack {
  return () => (target) =>
    reopen(
      target,
      connections,
      () => openWebSocket(target, processPath),
      async (socket) => {
        await play(socket);
        socket.destroy();
      },
    );
}

const { text, binary, continuation, ping } = webSocketOpcodes;
const create = requestOf("createWorld");

/** Attacks by requests. */
export const requests: Attacks = {
  creates: onOwnStream(create),
  "requests without a payload": onOwnStream(Buffer.alloc(0)),
  "steps and resets without a world": onOwnStream(requestOf("step"), requestOf("reset")),
  "joins of unknown worlds": onOwnStream(requestOf("joinWorld", field(1, Buffer.from("nowhere")))),
  "lists of all properties": onOwnStream(requestOf("listProperty")),
  "extensions that do not exist": onOwnStream(
    requestOf("extension", field(1, Buffer.from("type.googleapis.com/chess.v1.Move"))),
  ),
  "joins and leaves": pipelined(async (peer) => {
    const stream = await peer.call();
    const world = await createOn(peer, stream);
    return world === undefined
      ? undefined
      : {
          stream,
          requests: [requestOf("joinWorld", field(1, Buffer.from(world))), requestOf("leaveWorld")],
        };
  }),
  "joins of 1,000 seats, and leaves": pipelined(async (peer) => {
    const stream = await peer.call();
    const world = await createOn(peer, stream, { height: 32, width: 32, max_agents: 1_000 });
    return world === undefined
      ? undefined
      : { stream, requests: [joinWithSeats(world, 1_000), requestOf("leaveWorld")] };
  }),
  "steps of own worlds for all observations": pipelined(async (peer) => {
    const joined = await joinOwn(peer, { height: 32, width: 32 });
    return joined && { stream: joined.stream, requests: [stepFor(joined.observations)] };
  }),
  "resets of own worlds": pipelined(async (peer) => {
    const joined = await joinOwn(peer);
    return joined && { stream: joined.stream, requests: [requestOf("reset"), stepFor([])] };
  }),
  "250 agents in lockstep for pictures": inLockstep(250, { height: 32, width: 32 }),
  "250 agents in lockstep for large pictures": inLockstep(250, { height: 64, width: 64 }),

  "unary creates by Connect": calls(processPath, "application/connect+proto", grpcFrame(create)),
  "unary creates by Connect that wait for their answers": answeredCalls(
    "application/connect+proto",
    () => grpcFrame(create),
  ),
  "unary creates by gRPC-Web": calls(processPath, "application/grpc-web+proto", grpcFrame(create)),
  "unary creates of 65,000 settings by gRPC": answeredCalls("application/grpc", () =>
    grpcFrame(manySettings()),
  ),
  "unary creates of 65,000 settings by Connect": answeredCalls("application/connect+proto", () =>
    grpcFrame(manySettings()),
  ),
  "unary creates of 65,000 settings by gRPC-Web": answeredCalls("application/grpc-web+proto", () =>
    grpcFrame(manySettings()),
  ),
  "calls with an unknown content type": calls(processPath, "text/chess", randomBytes(100)),
  "messages of 1 MiB in gzip, 1 KB each": gzipped(() =>
    requestOf("joinWorld", field(1, Buffer.alloc(2 ** 20, "w"))),
  ),
  "messages in gzip, 16 KB each": gzipped(() =>
    requestOf("joinWorld", field(1, Buffer.from(randomBytes(15_200).toString("hex")))),
  ),

  "health checks": calls(`${health}/Check`, "application/grpc", grpcFrame(name)),
  "health checks of long names": calls(`${health}/Check`, "application/grpc", grpcFrame(longName)),
  "health watches": watches(`${health}/Watch`, name),
  reflection: pipelined(async (peer) => ({
    stream: await peer.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    requests: [field(4, Buffer.from("dm_env_rpc.v1.Environment"))],
  })),

  "reflection of symbols of 60,000 dots": pipelined(async (peer) => ({
    stream: await peer.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    requests: [field(4, Buffer.alloc(60_000, "."))],
  })),

  "1,000 viewers of the list of worlds": listViewers(
    "application/grpc",
    toBinary(WatchWorldsRequestSchema, createMessage(WatchWorldsRequestSchema, { maxRate: 30 })),
  ),
  "1,000 viewers of the list of worlds, in JSON": listViewers(
    "application/grpc+json",
    Buffer.from('{"maxRate":30}'),
  ),
  "viewers of 50 large pictures that change": pictureViewers(),

  "WebSockets that open and close": webSockets(async () => {}),
  "WebSocket frames without a mask": webSockets(async (socket) => {
    await socket.write(webSocketFrame(binary, create, { isMasked: false }));
    await socket.ended();
  }),
  "WebSocket fragments of one byte": webSockets(async (socket) => {
    await socket.write(webSocketFrame(binary, create, { isLast: false }));
    const fragments = times(1000, webSocketFrame(continuation, Buffer.of(0), { isLast: false }));
    await socket.pour(fragments);
  }),
  "WebSocket pings": webSockets(async (socket) => {
    await socket.pour(times(1000, webSocketFrame(ping, randomBytes(125))));
  }),
  "WebSocket texts": webSockets(async (socket) => {
    await socket.pour(times(1000, webSocketFrame(text, Buffer.from("chess"))));
  }),
  "WebSocket creates": webSockets(async (socket) => {
    await socket.pour(times(1000, webSocketFrame(binary, create)));
  }),
};
