// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { field, grpcFrame, incompleteFrame } from "@dm-env-rpc/tests-processes";
import { expect } from "vitest";
import { frame, type Payload, RawConnection } from "./raw-call.ts";

const mebibyte = 1024 * 1024;

const move = (shape: number[], bytes: Uint8Array): Payload => ({
  case: "step",
  value: { actions: { 1: { shape, payload: { case: "int8s", value: { array: bytes } } } } },
});

const mebibytes60 = 60 * mebibyte;
const gzip = { "grpc-encoding": "gzip" };

/** Makes a gRPC frame of gzipped bytes. */
function squeezed(bytes: Uint8Array): Buffer {
  return grpcFrame(gzipSync(bytes), 1);
}

/** Makes a CreateWorldRequest with the setting `x`, whose tensor has `array` in the field `payload`. */
function creating(payload: number, array: Uint8Array): Buffer {
  const tensor = field(payload, array);
  return field(1, field(1, Buffer.concat([field(1, Buffer.from("x")), field(2, tensor)])));
}

/** Eight million empty fields with number 1. */
const emptyFields = Buffer.alloc(16 * mebibyte, Buffer.from([0x0a, 0]));
const bombs = {
  protos: squeezed(creating(11, emptyFields)),
  strings: squeezed(creating(10, emptyFields)),
  numbers: squeezed(creating(4, field(1, Buffer.alloc(16 * mebibyte)))),
  keysToList: squeezed(field(10, emptyFields)),
  keysToRead: squeezed(field(8, emptyFields)),
  protosOfAStep: squeezed(
    field(3, field(1, Buffer.concat([Buffer.from([8, 1]), field(2, field(11, emptyFields))]))),
  ),
};
const tooLarge = squeezed(Buffer.alloc(65 * mebibyte));
const largeCreate = squeezed(creating(6, field(1, Buffer.alloc(mebibytes60))));

/** Joins a new world and returns the UIDs of its observations. */
async function joinOwn(call: ReturnType<RawConnection["call"]>): Promise<bigint[]> {
  return await joinNamed(call, await createOwn(call));
}

async function createOwn(call: ReturnType<RawConnection["call"]>): Promise<string> {
  const created = await call.ask({ case: "createWorld", value: {} });
  return created.case === "createWorld" ? created.value.worldName : "";
}

async function joinNamed(
  call: ReturnType<RawConnection["call"]>,
  worldName: string,
): Promise<bigint[]> {
  const joined = await call.ask({ case: "joinWorld", value: { worldName } });
  if (joined.case !== "joinWorld") {
    throw new Error(`received ${joined.case}`);
  }
  return Object.keys(joined.value.specs?.observations ?? {}).map(BigInt);
}

/** Attacks a server. The returned resource is disposed after the other agents were timed. */
export type Attack = (address: string) => Promise<AsyncDisposable | undefined>;

/** Attacks by name. */
export const attacks: Readonly<Record<string, Attack>> = {
  "bytes that are no gRPC": async (address) => {
    const [host = "", port] = address.split(":");
    const greetings = [
      randomBytes(4096),
      Buffer.from("GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n"),
      Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".padEnd(4096, "?")),
    ];
    for (let i = 0; i < 60; i++) {
      const socket = connectTcp(Number(port), host);
      socket.on("error", () => {});
      socket.resume();
      socket.write(greetings[i % greetings.length] as Buffer);
      await once(socket, "close");
    }
    return undefined;
  },

  "an unknown path": async (address) => {
    await using connection = new RawConnection(address);
    for (const path of ["/chess.v1.Board/Move", "/", `/${"a".repeat(10_000)}`]) {
      const call = connection.call(path);
      call.http2.resume();
      call.http2.end();
      expect((await call.status)?.["grpc-status"]).toBe("12");
    }
    return undefined;
  },

  "payloads of no kind, unknown extensions and broken protobuf": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call();
    const typeUrl = "type.googleapis.com/chess.v1.Move";
    const code = async (request: Payload | Uint8Array): Promise<number> => {
      const answer = await call.ask(request);
      return answer.case === "error" ? answer.value.code : 0;
    };
    for (let i = 0; i < 200; i++) {
      expect(await code(undefined)).toBe(3);
      expect(await code({ case: "extension", value: { typeUrl } })).toBe(12);
      expect(await code(Buffer.from("ffffffffff", "hex"))).toBe(3);
    }
    return undefined;
  },

  "100,000 requests whose answers nobody reads": async (address) => {
    const connection = new RawConnection(address);
    const call = connection.call();
    const requestedObservations = await joinOwn(call);
    call.http2.pause();
    const step = frame({ case: "step", value: { requestedObservations } });
    call.http2.write(Buffer.concat(Array.from({ length: 100_000 }, () => step)));
    return connection;
  },

  "1,000 streams that say nothing": async (address) => {
    const connections = Array.from({ length: 4 }, () => new RawConnection(address));
    for (const connection of connections) {
      for (let i = 0; i < 250; i++) {
        connection.call();
      }
      await new Promise((resolve) => connection.session.ping(resolve));
    }
    return {
      async [Symbol.asyncDispose]() {
        for (const connection of connections) {
          await connection[Symbol.asyncDispose]();
        }
      },
    };
  },

  "16 KB of gzip that hold millions of objects": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call(undefined, gzip);
    await joinOwn(call);
    await call.ask({ case: "step", value: {} });
    for (const bomb of Object.values(bombs)) {
      call.http2.write(bomb);
      const answer = await call.answer();
      expect(answer).toMatchObject({ case: "error", value: { code: 8 } });
      expect(answer.case === "error" && answer.value.message).toContain("maxMessageWork");
    }
    return undefined;
  },

  "100 requests of 60 MiB, 60 KB of gzip each, behind a step that waits": async (address) => {
    const connection = new RawConnection(address);
    const [silent, waiting] = [connection.call(), connection.call(undefined, gzip)];
    const worldName = await createOwn(silent);
    await joinNamed(silent, worldName);
    await joinNamed(waiting, worldName);
    waiting.http2.write(frame({ case: "step", value: {} }));
    for (let i = 0; i < 100; i++) {
      waiting.http2.write(largeCreate);
    }
    await new Promise((resolve) => connection.session.ping(resolve));
    return connection;
  },

  "10 streams that send 58 of 60 MiB and stall": async (address) => {
    const connection = new RawConnection(address);
    const part = incompleteFrame(mebibytes60, 58 * mebibyte);
    const calls = Array.from({ length: 10 }, () => connection.call());
    const codes: unknown[] = [];
    await new Promise<void>((resolve) => {
      for (const call of calls) {
        call.http2.resume();
        call.http2.write(part);
        void call.status.then((status) => {
          codes.push(status?.["grpc-status"]);
          if (codes.length === 8) {
            resolve();
          }
        });
      }
    });
    expect(new Set(codes)).toEqual(new Set(["8"]));
    return connection;
  },

  "100 streams that begin a frame of 60 MiB and stall": async (address) => {
    const connection = new RawConnection(address);
    const half = incompleteFrame(mebibytes60, 1000);
    for (let i = 0; i < 100; i++) {
      connection.call().http2.write(half);
    }
    await new Promise((resolve) => connection.session.ping(resolve));
    return connection;
  },

  "a frame that claims 4 GiB": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call();
    call.http2.resume();
    call.http2.write(Buffer.from("00ffffffff00", "hex"));
    expect((await call.status)?.["grpc-status"]).toBe("8");
    return undefined;
  },

  "a world name of 1 MB": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call();
    const worldName = "w".repeat(1_000_000);
    for (const kind of ["joinWorld", "resetWorld", "destroyWorld"] as const) {
      const answer = await call.ask({ case: kind, value: { worldName } });
      expect(answer).toMatchObject({ case: "error", value: { code: 5 } });
      expect(answer.case === "error" && answer.value.message.length).toBeLessThan(1000);
    }
    return undefined;
  },

  "tensors of 2^31 elements": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call();
    await joinOwn(call);
    await call.ask({ case: "step", value: {} });
    const one = Uint8Array.of(1);
    for (const shape of [[65_536, 32_768], [2 ** 31 - 1], [2 ** 31 - 1, 2 ** 31 - 1]]) {
      for (let i = 0; i < 50; i++) {
        const answer = await call.ask(move(shape, one));
        expect(answer).toMatchObject({ case: "error", value: { code: 8 } });
      }
      const payload = { case: "int32s" as const, value: { array: [1] } };
      const settings = { width: { shape, payload } };
      const created = await call.ask({ case: "createWorld", value: { settings } });
      expect(created).toMatchObject({ case: "error", value: { code: 8 } });
    }
    return undefined;
  },

  "65 KB that inflate to 65 MiB": async (address) => {
    await using connection = new RawConnection(address);
    for (let i = 0; i < 5; i++) {
      const call = connection.call(undefined, gzip);
      call.http2.resume();
      call.http2.write(tooLarge);
      expect((await call.status)?.["grpc-status"]).toBe("8");
    }
    return undefined;
  },

  "16 KB by Connect that inflate to 16 MiB of empty messages": async (address) => {
    await using connection = new RawConnection(address);
    const headers = {
      "content-type": "application/connect+proto",
      "connect-content-encoding": "gzip",
    };
    for (let i = 0; i < 5; i++) {
      const call = connection.call(undefined, headers);
      call.http2.write(bombs.protos);
      call.http2.end();
      expect(await text(call.http2)).toMatch(/at most 262144 units of work/);
    }
    return undefined;
  },

  "more worlds than there is room for": async (address) => {
    await using connection = new RawConnection(address);
    const call = connection.call();
    const answers = new Set<string>();
    for (let i = 0; i < 40; i++) {
      const answer = await call.ask({ case: "createWorld", value: {} });
      answers.add(answer.case === "error" ? String(answer.value.code) : String(answer.case));
    }
    expect([...answers]).toEqual(["createWorld", "8"]);
    return undefined;
  },
};
