// SPDX-License-Identifier: Apache-2.0
// Single messages that cost a server more than their size suggests. Each attack sends its message, waits until it is
// answered or refused, and sends it again.
import { gzipSync } from "node:zlib";
import { field, grpcFrame, integerField, literalHeader, varint } from "@dm-env-rpc/tests-processes";
import { type Peer, processPath } from "../wire/peer.ts";
import {
  action,
  createWith,
  joinOwn,
  requestOf,
  setting,
  stepFor,
  tensorFields,
} from "../wire/requests.ts";
import { openWebSocket, webSocketFrame, webSocketOpcodes } from "../wire/web-socket.ts";
import { type Attack, type Attacks, persist, reopen, type Target, times } from "./attack.ts";

const mebibyte = 1024 * 1024;

/** Size of the largest messages, in bytes: a little less than maxMessageBytes. */
const largest = 63 * mebibyte;

/** Size of the largest messages over a WebSocket, in bytes: a little less than maxWebSocketRequestBytes. */
const largestOverWebSocket = 4 * mebibyte - 65_536;

/** Largest number of elements that maxElements admits. */
const elements = 2 ** 24;

/** Sends one message at a time, on one connection. */
function messages(bodyOf: () => Uint8Array): Attack {
  return () => {
    const framed = grpcFrame(bodyOf());
    return (target) =>
      persist(target, 1, async (peer) => {
        while (peer.isOpen) {
          await exchange(target, peer, await peer.call(), framed);
        }
      });
  };
}

/** Sends one message at a time, as steps of an agent that has joined a world. */
function steps(bodyOf: () => Uint8Array): Attack {
  return () => {
    const framed = grpcFrame(bodyOf());
    return (target) =>
      persist(target, 1, async (peer) => {
        while (peer.isOpen) {
          const joined = await joinOwn(peer);
          if (joined === undefined) {
            continue;
          }
          // The first step starts the sequence and takes no actions.
          await peer.request(joined.stream, stepFor(joined.observations));
          await peer.answer(joined.stream);
          await exchange(target, peer, joined.stream, framed);
        }
      });
  };
}

/** Sends one gzipped message at a time. */
function gzipped(bodyOf: () => Uint8Array): Attack {
  return () => {
    const framed = grpcFrame(gzipSync(bodyOf(), { level: 1 }), 1);
    return (target) =>
      persist(target, 1, async (peer) => {
        while (peer.isOpen) {
          const encoding = literalHeader("grpc-encoding", "gzip");
          await exchange(target, peer, await peer.call(processPath, undefined, encoding), framed);
        }
      });
  };
}

/** Writes a message as one frame of a WebSocket. */
function oneFrame(message: Uint8Array): Buffer {
  return webSocketFrame(webSocketOpcodes.binary, message);
}

/** Writes a message as two frames of a WebSocket. */
function twoFrames(message: Uint8Array): Buffer {
  const { binary, continuation } = webSocketOpcodes;
  const half = message.length / 2;
  return Buffer.concat([
    webSocketFrame(binary, message.subarray(0, half), { isLast: false }),
    webSocketFrame(continuation, message.subarray(half)),
  ]);
}

/** Sends one message at a time over a WebSocket. */
function overWebSocket(bodyOf: () => Uint8Array, frameOf = oneFrame): Attack {
  return () => {
    const framed = frameOf(bodyOf());
    return (target) =>
      reopen(
        target,
        1,
        () => openWebSocket(target, processPath),
        async (socket) => {
          while (socket.isOpen) {
            const answered = socket.answer();
            await socket.write(framed);
            const how = (await answered) ? "answered" : "refused";
            if (!target.isOver()) {
              target.answered(how);
            }
          }
        },
      );
  };
}

/** Sends a message and waits for its response, or for the end of the stream. */
async function exchange(
  target: Target,
  peer: Peer,
  stream: number,
  framed: Uint8Array,
): Promise<void> {
  await peer.send(stream, framed);
  const answer = await peer.answer(stream);
  if (!target.isOver()) {
    target.answered(answer === undefined ? "refused" : "answered");
  }
}

const one = varint(1);

/** `count` unpacked elements of an array of numbers. */
const unpacked = (count: number): Buffer => times(count, integerField(1, 1));
const packed = (count: number): Buffer => field(1, times(count, one));
const tensorOf = (kind: keyof typeof tensorFields, ...array: readonly Uint8Array[]): Buffer =>
  field(tensorFields[kind], ...array);

const emptyField = Buffer.of(0x0a, 0);
const fields = (count: number): Buffer => times(count, emptyField);

/** `count` chunks of one element each, for an array of numbers. */
const chunks = (count: number): Buffer => times(count, field(1, one));

/** A board of `count` lines without cells, and one cell. */
const lines = (count: number): Buffer => Buffer.from(".\n".padEnd(count, "\n").concat("."));

/** A create with 65,000 settings, each under another name. */
export function manySettings(): Buffer {
  const settings = Array.from({ length: 65_000 }, (_, i) => setting(`s${i}`, Buffer.alloc(0)));
  return requestOf("createWorld", Buffer.concat(settings));
}

/** Nested groups: unknown fields, which a decoder skips. */
function nested(): Buffer {
  const depth = largest / 2;
  return Buffer.concat([Buffer.alloc(depth, 0xa3), Buffer.alloc(depth, 0xa4)]);
}

const bombs: Readonly<Record<string, () => Buffer>> = {
  "a setting of 16.7 million unpacked int32": () =>
    createWith(tensorOf("int32s", unpacked(elements))),
  "a setting of 16.7 million unpacked int64": () =>
    createWith(tensorOf("int64s", unpacked(elements))),
  "a setting of 16.7 million packed int32": () => createWith(tensorOf("int32s", packed(elements))),
  "a setting of 16.7 million chunks of one element": () =>
    createWith(tensorOf("int32s", chunks(elements))),
  "a setting of 16.7 million empty strings": () =>
    createWith(tensorOf("strings", fields(elements))),
  "a setting of 16.7 million empty messages": () =>
    createWith(tensorOf("protos", fields(elements))),
  "a setting of 60 MB of bytes": () =>
    createWith(tensorOf("uint8s", field(1, Buffer.alloc(largest)))),
  "a setting with 60 million dimensions": () =>
    createWith(tensorOf("shape", Buffer.alloc(largest, 1))),
  "a setting with 30 million unpacked dimensions": () =>
    createWith(times(largest / 2, integerField(tensorFields.shape, 1))),
  "a setting whose payload is given 30 million times": () =>
    createWith(times(largest / 2, field(tensorFields.int32s))),
  "65,000 settings": manySettings,
  "a seed of 16.7 million bytes": () =>
    requestOf("createWorld", setting("seed", tensorOf("uint8s", field(1, Buffer.alloc(elements))))),
  "a layout of 8 million empty lines": () =>
    requestOf("createWorld", setting("layout", tensorOf("strings", field(1, lines(8_000_000))))),
  "30 million settings without names": () => requestOf("createWorld", fields(largest / 2)),
  "a property written with 16.7 million unpacked int32": () =>
    requestOf("writeProperty", setting("x", tensorOf("int32s", unpacked(elements)))),
  "a read of 30 million properties": () => requestOf("readProperty", fields(largest / 2)),
  "a list of 30 million properties": () => requestOf("listProperty", fields(largest / 2)),
  "the name of a property, 60 MB long": () =>
    requestOf("readProperty", field(1, Buffer.alloc(largest, "p"))),
  "the name of a world, 60 MB long": () =>
    requestOf("joinWorld", field(1, Buffer.alloc(largest, "w"))),
  "the type of an extension, 60 MB long": () =>
    requestOf("extension", field(1, Buffer.alloc(largest, "t"))),
  "an extension of 60 MB": () =>
    requestOf(
      "extension",
      field(1, Buffer.from("type.googleapis.com/chess.v1.Move")),
      field(2, Buffer.alloc(largest)),
    ),
  "30 million requests in one message": () => fields(largest / 2),
  "30 million unknown fields": () => times(largest / 3, field(20)),
  "30 million groups, nested": nested,
  "60 MB that are not protobuf": () => Buffer.alloc(largest, 0xff),
};

const stepBombs: Readonly<Record<string, () => Buffer>> = {
  "a step of 16.7 million unpacked int32": () => action(1, tensorOf("int32s", unpacked(elements))),
  "a step of 16.7 million unpacked int64": () => action(1, tensorOf("int64s", unpacked(elements))),
  "a step of 16.7 million chunks of one element": () =>
    action(1, tensorOf("int32s", chunks(elements))),
  "a step of 60 MB of bytes": () => action(1, tensorOf("uint8s", field(1, Buffer.alloc(largest)))),
  "a step with 60 million dimensions": () => action(1, tensorOf("shape", Buffer.alloc(largest, 1))),
  "a step of 30 million empty actions": () => requestOf("step", fields(largest / 2)),
  "a step of the same action 10 million times": () =>
    requestOf("step", times(largest / 6, field(1, integerField(1, 1), field(2)))),
  "a step for 60 million observations": () => requestOf("step", field(2, Buffer.alloc(largest, 1))),
  "a step for 30 million unpacked observations": () =>
    requestOf("step", times(largest / 2, integerField(2, 1))),
};

const gzipBombs: Readonly<Record<string, () => Buffer>> = {
  "gzip of 65 MiB, more than a message may have": () => Buffer.alloc(65 * mebibyte),
  "gzip of a setting of 16.7 million unpacked int32": () =>
    createWith(tensorOf("int32s", unpacked(elements))),
  "gzip of 30 million empty actions": () => requestOf("step", fields(largest / 2)),
  "gzip of a setting with 60 million dimensions": () =>
    createWith(tensorOf("shape", Buffer.alloc(largest, 1))),
};

const webSocketBombs = {
  "over a WebSocket, a setting of 2 million unpacked int64": () =>
    createWith(tensorOf("int64s", unpacked(largestOverWebSocket / 2))),
  "over a WebSocket, a setting of a million chunks of one element": () =>
    createWith(tensorOf("int32s", chunks(largestOverWebSocket / 3))),
  "over a WebSocket, a setting with 4 million dimensions": () =>
    createWith(tensorOf("shape", Buffer.alloc(largestOverWebSocket, 1))),
  "over a WebSocket, a million unknown fields": () => times(largestOverWebSocket / 3, field(20)),
  "over a WebSocket, 65,000 settings": manySettings,
  "over a WebSocket, a setting of 4 MB of bytes": () =>
    createWith(tensorOf("uint8s", field(1, Buffer.alloc(largestOverWebSocket)))),
  "over a WebSocket, a setting of 60 MB of bytes, more than a request may have": () =>
    createWith(tensorOf("uint8s", field(1, Buffer.alloc(largest)))),
} satisfies Readonly<Record<string, () => Buffer>>;

/** Attacks by messages. */
export const singleMessages: Attacks = {
  ...mapped(bombs, messages),
  ...mapped(stepBombs, steps),
  ...mapped(gzipBombs, gzipped),
  ...mapped(webSocketBombs, (bodyOf) => overWebSocket(bodyOf)),
  "over a WebSocket, a million unknown fields in two frames": overWebSocket(
    webSocketBombs["over a WebSocket, a million unknown fields"],
    twoFrames,
  ),
};

function mapped(
  bodies: Readonly<Record<string, () => Buffer>>,
  send: (bodyOf: () => Uint8Array) => Attack,
): Attacks {
  return Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, send(body)]));
}
