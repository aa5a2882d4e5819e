// SPDX-License-Identifier: Apache-2.0
// Frames that a server must accept or refuse, in larger numbers than any client sends.
import { randomBytes } from "node:crypto";
import {
  frameFlags,
  frameHead,
  frameTypes,
  headersOfCall,
  http2Frame,
  indexedHeader,
  literalHeader,
  preface,
  settingsFrame,
} from "@dm-env-rpc/tests-processes";
import { openSocket, processPath, settingIds, windowUpdate } from "../wire/peer.ts";
import { type Attack, type Attacks, hold, persist, repeat, times } from "./attack.ts";

const { data, headers, priority, rstStream, settings, pushPromise, ping, goAway, continuation } =
  frameTypes;
const { endStream, endHeaders, padded } = frameFlags;

/** Connections of each attack, unless it states another number. */
const connections = 4;

/** Streams or frames in one write. */
const batch = 200;

const call = headersOfCall(processPath);
const cancel = Buffer.of(0, 0, 0, 8);

/** Opens new streams without pause, and sends the given frames on each. */
function streamsOf(framesOf: (id: number) => Uint8Array): Attack {
  return () => (target) =>
    persist(target, connections, (peer) =>
      peer.pour(() =>
        Buffer.concat(Array.from({ length: batch }, () => framesOf(peer.newStream()))),
      ),
    );
}

/** Opens a stream, and sends the same bytes on it again and again without pause. */
function repeated(bytesOf: (id: number) => Uint8Array): Attack {
  return () => (target) =>
    persist(target, connections, async (peer) => {
      const bytes = bytesOf(await peer.call());
      await peer.pour(() => bytes);
    });
}

/** Connects, sends the given bytes instead of HTTP/2, waits until the server closes the connection, and repeats. */
function greeting(bytesOf: () => Uint8Array): Attack {
  return () => (target) =>
    repeat(target, connections, async () => {
      const socket = await openSocket(target);
      if (socket === undefined) {
        return;
      }
      socket.on("data", (chunk) => {
        target.seen.receivedBytes += chunk.length;
      });
      socket.write(bytesOf());
      await Promise.race([new Promise((resolve) => socket.once("close", resolve)), target.over]);
      socket.destroy();
    });
}

function opened(id: number, flags = 0): Buffer {
  return http2Frame(headers, endHeaders | flags, id, call);
}

/** Headers that repeat one entry of the dynamic table: each byte stands for 4 KB. */
function hpackBomb(id: number): Buffer {
  const entry = indexedHeader("x-bomb", "b".repeat(3_900));
  const references = Buffer.alloc(frameBytes - call.length - entry.length, 0xbe);
  return http2Frame(headers, endHeaders, id, Buffer.concat([call, entry, references]));
}

const frameBytes = 16_384;

/** Attacks by frames. */
export const frames: Attacks = {
  "rapid reset: streams opened and reset": streamsOf((id) =>
    Buffer.concat([opened(id), http2Frame(rstStream, 0, id, cancel)]),
  ),

  "made-you-reset: streams that the server must reset": streamsOf((id) =>
    Buffer.concat([opened(id), windowUpdate(id, 0)]),
  ),

  "streams with headers that are invalid": streamsOf((id) =>
    http2Frame(headers, endHeaders, id, Buffer.concat([call, literalHeader("Upper", "case")])),
  ),

  "streams that are half-closed at once": streamsOf((id) => opened(id, endStream)),

  "streams beyond maxStreamsPerConnection": streamsOf((id) => opened(id)),

  "streams of unknown paths": streamsOf((id) =>
    http2Frame(headers, endHeaders | endStream, id, headersOfCall("/chess.v1.Board/Move")),
  ),

  "CONTINUATION flood, frames of 16 KB": () => (target) =>
    persist(target, connections, async (peer) => {
      const id = peer.newStream();
      await peer.write(http2Frame(headers, 0, id, call));
      const header = literalHeader("x-more", "c".repeat(frameBytes - 16));
      const more = http2Frame(continuation, 0, id, header);
      await peer.pour(() => more);
    }),

  "CONTINUATION flood, empty frames": () => (target) =>
    persist(target, connections, async (peer) => {
      const id = peer.newStream();
      await peer.write(http2Frame(headers, 0, id, call));
      const more = times(1000, http2Frame(continuation, 0, id));
      await peer.pour(() => more);
    }),

  "HPACK bomb: 16 KB of headers that stand for 64 MB": streamsOf(hpackBomb),

  "SETTINGS flood": repeated(() =>
    times(1000, settingsFrame([[settingIds.headerTableSize, 4096]])),
  ),

  "SETTINGS that flip the windows of 250 streams": () => (target) =>
    persist(target, connections, async (peer) => {
      for (let i = 0; i < 250 && peer.isOpen; i++) {
        await peer.call();
      }
      const flip = Buffer.concat([
        settingsFrame([[settingIds.initialWindowSize, 0]]),
        settingsFrame([[settingIds.initialWindowSize, 65_535]]),
      ]);
      const flips = times(500, flip);
      await peer.pour(() => flips);
    }),

  "PING flood": repeated(() => times(1000, http2Frame(ping, 0, 0, randomBytes(8)))),

  "PRIORITY flood": repeated((id) =>
    times(1000, http2Frame(priority, 0, id, Buffer.of(0, 0, 0, 0, 255))),
  ),

  "PRIORITY flood on idle streams": streamsOf((id) =>
    http2Frame(priority, 0, id + 2 ** 20, Buffer.of(0, 0, 0, 0, 255)),
  ),

  "WINDOW_UPDATE flood": repeated((id) =>
    Buffer.concat(Array.from({ length: 1000 }, (_, i) => windowUpdate(i % 2 === 0 ? 0 : id, 1))),
  ),

  "WINDOW_UPDATE past the largest window": repeated((id) => windowUpdate(id, 2 ** 31 - 1)),

  "DATA of one byte": () => (target) =>
    persist(target, connections, async (peer) => {
      const id = await peer.call();
      // A message of 4 MB, as large as the server's window, with one byte in each frame.
      await peer.write(http2Frame(data, 0, id, Buffer.of(0, 0, 63, 0, 0)));
      const bytes = times(1000, http2Frame(data, 0, id, Buffer.of(0)));
      for (let sent = 0; sent < 4_000 && peer.isOpen; sent++) {
        await peer.write(bytes);
      }
    }),

  "DATA that is empty": repeated((id) => times(1000, http2Frame(data, 0, id))),

  "DATA that is padding": repeated((id) =>
    times(100, http2Frame(data, padded, id, Buffer.concat([Buffer.of(255), Buffer.alloc(255)]))),
  ),

  "DATA past the windows": repeated((id) =>
    times(64, http2Frame(data, 0, id, Buffer.alloc(16_384))),
  ),

  "frames of unknown types": repeated((id) =>
    Buffer.concat([
      times(500, http2Frame(0xfa, 0xff, 0)),
      times(4, http2Frame(0xfb, 0xff, id, randomBytes(frameBytes))),
    ]),
  ),

  "frames larger than SETTINGS_MAX_FRAME_SIZE": repeated((id) =>
    Buffer.concat([frameHead(data, 0, id, 2 ** 24 - 1), Buffer.alloc(frameBytes)]),
  ),

  "PUSH_PROMISE of a client": repeated((id) =>
    http2Frame(pushPromise, endHeaders, id, Buffer.concat([Buffer.of(0, 0, 0, 2), call])),
  ),

  "GOAWAY flood": repeated(() =>
    times(100, http2Frame(goAway, 0, 0, Buffer.concat([Buffer.alloc(8), randomBytes(1024)]))),
  ),

  "GOAWAY, then 250 streams": () => (target) =>
    persist(target, connections, async (peer) => {
      await peer.write(http2Frame(goAway, 0, 0, Buffer.alloc(8)));
      for (let i = 0; i < 250 && peer.isOpen; i++) {
        await peer.call();
      }
      await peer.write(http2Frame(settings, 1, 0, Buffer.alloc(1)));
      await peer.pour(() => Buffer.alloc(0));
    }),

  "headers that arrive byte by byte": () => (target) =>
    hold(target, 250, async (peer) => {
      const id = peer.newStream();
      await peer.write(http2Frame(headers, 0, id, call.subarray(0, 1)));
      for (let at = 1; at < call.length - 1 && peer.isOpen; at++) {
        await peer.write(http2Frame(continuation, 0, id, call.subarray(at, at + 1)));
        await soon();
      }
    }),

  "a message that arrives byte by byte on 1,000 streams": () => (target) =>
    hold(target, connections, async (peer) => {
      const ids: number[] = [];
      for (let i = 0; i < 250 && peer.isOpen; i++) {
        const id = await peer.call();
        await peer.send(id, Buffer.of(0, 0, 16, 0, 0));
        ids.push(id);
      }
      const bytes = Buffer.concat(ids.map((id) => http2Frame(data, 0, id, Buffer.of(0))));
      while (peer.isOpen) {
        await peer.write(bytes);
        await soon();
      }
    }),

  "bytes that are not HTTP": greeting(() => randomBytes(4096)),

  "a preface, then bytes that are not frames": greeting(() =>
    Buffer.concat([preface, randomBytes(4096)]),
  ),
};

/** Waits for 20 ms. */
function soon(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}
