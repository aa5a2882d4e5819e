// SPDX-License-Identifier: Apache-2.0
// Many connections, and connections that end in ways that HTTP/2 does not define.
import { setTimeout as sleep } from "node:timers/promises";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
} from "@dm-env-rpc/tests-processes";
import { openSocket, type Peer, processPath } from "../wire/peer.ts";
import { joinOwn } from "../wire/requests.ts";
import { type Attack, type Attacks, hold, reopen, repeat, times } from "./attack.ts";

const { headers, goAway, continuation } = frameTypes;

/** A GOAWAY whose last stream is 6, and a CONTINUATION that follows no headers. */
const goodbyes: Buffer = Buffer.concat([
  http2Frame(goAway, 0, 0, Buffer.of(0, 0, 0, 6, 0, 0, 0, 0)),
  http2Frame(continuation, frameFlags.endHeaders, 1, Buffer.of(0x83)),
]);

const ghost: Buffer = Buffer.concat([
  preface,
  emptySettings,
  http2Frame(headers, frameFlags.endHeaders, 3, headersOfCall(processPath)),
  goodbyes,
]);

const beginning: Buffer = Buffer.concat([preface, emptySettings]);

/** The headers of 250 calls of Process. */
const calls: Buffer = Buffer.concat(
  Array.from({ length: 250 }, (_, i) =>
    http2Frame(headers, frameFlags.endHeaders, 2 * i + 1, headersOfCall(processPath)),
  ),
);

/** Time that the server has to read the beginnings of connections. */
const beginningMs = 500;

/** Opens 1,000 connections that send `bytes` bytes of their beginning. Then each sends the rest and opens 250 streams. */
function openAtOnce(bytes: number): Attack {
  const rest = Buffer.concat([beginning.subarray(bytes), calls]);
  return () => (target) =>
    repeat(target, 1, async () => {
      const sockets = await Promise.all(Array.from({ length: 1_000 }, () => openSocket(target)));
      for (const socket of sockets) {
        socket?.write(beginning.subarray(0, bytes));
      }
      await sleep(beginningMs);
      for (const socket of sockets) {
        socket?.write(rest);
      }
      await sleep(beginningMs);
      for (const socket of sockets) {
        socket?.destroy();
      }
    });
}

/** Attacks by connections. */
export const connections: Attacks = {
  "connections that open and close": () => (target) =>
    repeat(target, 16, async () => {
      const socket = await openSocket(target);
      socket?.destroy();
      await new Promise((resolve) => setImmediate(resolve));
    }),

  "2,000 connections at once": () => (target) => hold(target, 2_000, async () => {}),

  "10,000 streams that send nothing, on 40 connections": () => (target) =>
    hold(target, 40, async (peer) => {
      for (let i = 0; i < 250 && peer.isOpen; i++) {
        await peer.call();
      }
    }),

  "5,000 connections that send nothing": () => async (target) => {
    for (let opened = 0; opened < 5_000 && !target.isOver(); opened += 100) {
      await Promise.all(Array.from({ length: 100 }, () => openSocket(target)));
    }
    await target.over;
  },

  "1,000 connections that open 250 streams each at once": openAtOnce(beginning.length),
  "1,000 connections that begin with two bytes, and then open 250 streams each": openAtOnce(2),

  "ghosts: connections that end between GOAWAY and CONTINUATION": () => async (target) => {
    for (let left = 2_000; left > 0 && !target.isOver(); left--) {
      const socket = await openSocket(target);
      await new Promise<void>((resolve) => {
        socket?.end(ghost, () => resolve());
        if (socket === undefined) {
          resolve();
        }
      });
      socket?.resume();
    }
    await target.over;
  },

  "ghosts that have joined worlds": () => (target) =>
    hold(target, 100, async (peer: Peer) => {
      await joinOwn(peer);
      await peer.write(goodbyes);
      peer.socket.end();
    }),

  "HTTP/1.1 requests": () => (target) =>
    repeat(target, 16, async () => {
      const socket = await openSocket(target);
      if (socket === undefined) {
        return;
      }
      socket.on("data", (chunk) => {
        target.seen.receivedBytes += chunk.length;
      });
      socket.write("GET / HTTP/1.1\r\nhost: here\r\n\r\n".repeat(100));
      await Promise.race([new Promise((resolve) => socket.once("data", resolve)), target.over]);
      socket.destroy();
    }),

  "HTTP/1.1 requests, 2,500 in each write": () => {
    const requests = times(2_500, Buffer.from("GET / HTTP/1.1\r\nhost:a\r\n\r\n"));
    return (target) =>
      reopen(
        target,
        250,
        () => openSocket(target),
        async (socket) => {
          const closed = new Promise((resolve) => socket.once("close", resolve));
          socket.on("data", (chunk) => {
            target.seen.receivedBytes += chunk.length;
          });
          socket.write(requests);
          await Promise.race([closed, target.over]);
        },
      );
  },

  "HTTP/1.1 headers that never end": () => (target) =>
    repeat(target, 250, async () => {
      const socket = await openSocket(target);
      if (socket === undefined) {
        return;
      }
      socket.write("GET / HTTP/1.1\r\nhost: here\r\n");
      let isClosed = false;
      socket.resume().once("close", () => {
        isClosed = true;
      });
      while (!isClosed && !target.isOver()) {
        socket.write("x-slow: loris\r\n");
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }),
};
