// SPDX-License-Identifier: Apache-2.0

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { closeSync, openSync, rmSync } from "node:fs";
import { mkdtemp, open } from "node:fs/promises";
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { DmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import {
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
  settingsFrame,
} from "@dm-env-rpc/tests-processes";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { BufferedBytes } from "../limits/buffered-bytes.ts";
import { openStream } from "../open/open-stream.ts";
import type { ServerStream } from "../stream/message-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { errorOf } from "../testing/error-of.ts";
import { reachableArrayBuffers } from "../testing/memory.ts";
import { answered, named, nameOf, stepRequest, stepResponse } from "../testing/messages.ts";
import { bytesOf, frame, type RawCall, rawCall } from "../testing/raw-call.ts";
import { rawPeer, startOfCall } from "../testing/raw-peer.ts";
import { type Recorder, record } from "../testing/recorder.ts";
import { echo, type Serving, serving } from "../testing/serving.ts";
import { slowChecks } from "../testing/slow-checks.ts";

const gzip = { "grpc-encoding": "gzip" };

/** Keeps all threads that inflate messages waiting until the returned function is called. */
async function blockThreadPool(): Promise<() => void> {
  const folder = await mkdtemp(join(tmpdir(), "pool-"));
  const fifo = join(folder, "fifo");
  execFileSync("mkfifo", [fifo]);
  const threads = Number(process.env["UV_THREADPOOL_SIZE"] ?? 4);
  const opened = Array.from({ length: threads }, () => open(fifo, "r")); // Each waits for a writer.
  return () => {
    const writer = openSync(fifo, "r+");
    void Promise.all(opened.map(async (file) => (await file).close())).then(() => {
      closeSync(writer);
      rmSync(folder, { recursive: true });
    });
  };
}

async function codeOf(closed: Promise<Error | undefined>): Promise<StatusCode> {
  return errorOf(await closed).code;
}

describe("requests", () => {
  test("cut into single bytes are assembled", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    for (const byte of Buffer.concat([frame(bytesOf(named("a"))), frame(bytesOf(named("b")))])) {
      await new Promise((resolve) => call.http2.write(Buffer.of(byte), resolve));
    }
    await served.seen("message", 2);
    expect(served.messages.map(nameOf)).toEqual(["a", "b"]);
  });

  test("compressed with gzip are inflated, and stay in order with uncompressed requests", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, gzip);
    expect((await call.response)["grpc-accept-encoding"]).toBe("identity,gzip");
    const served = echo(await server.next());
    const names = Array.from({ length: 50 }, (_, i) => `world ${i}`);
    call.http2.write(
      Buffer.concat(
        names.map((name, i) => {
          const bytes = bytesOf(named(name));
          return i % 3 === 0 ? frame(bytes) : frame(gzipSync(bytes), 1);
        }),
      ),
    );
    call.http2.end();
    expect(await served.closed).toBeUndefined();
    expect(served.messages.map(nameOf)).toEqual(names);
    expect((await call.trailers)?.["grpc-status"]).toBe("0");
  });

  test("that exceed a limit of the codec are refused before all of them has arrived", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    const large = frame(Buffer.alloc(30_000_000, Buffer.of(0xa0, 1, 1)));
    call.http2.write(large.subarray(0, 2_000_000));
    await served.seen("message");
    expect(served.messages).toMatchObject([
      { case: "malformed", value: { message: expect.stringContaining("(limit: maxMessageWork)") } },
    ]);
    call.http2.write(Buffer.concat([large.subarray(2_000_000), frame(bytesOf(named("next")))]));
    await served.seen("message", 2);
    call.http2.end();
    expect(await served.closed).toBeUndefined();
    expect(served.messages.slice(1).map(nameOf)).toEqual(["next"]);
  });

  test.each([
    // The first chunk of each message does not wait.
    ["checked while they arrive", {}, frame, 4],
    [
      "checked after they were inflated",
      gzip,
      (body: Uint8Array) => frame(gzipSync(body, { level: 1 }), 1),
      2,
    ],
  ])(
    "that are %s leave turns to other streams, also if several streams send them",
    async (_how, headers, framed, most) => {
      const checks = slowChecks();
      await using server = await serving({ codecs: checks.codecs });
      const step = stepRequest(1_000_000);
      const calls = await callsOf(server, 3, headers);
      for (const { call } of calls) {
        call.http2.write(framed(bytesOf(step)));
      }
      await Promise.all(calls.map(({ served }) => served.seen("message")));
      expect(calls.map(({ served }) => served.messages[0]?.case)).toEqual(["step", "step", "step"]);
      expect(checks.bytes()).toBe(3 * bytesOf(step).length);
      expect(checks.mostInTurn()).toBeLessThanOrEqual(most);
    },
  );

  test("that waited while their streams were paused are checked in turns", async () => {
    const checks = slowChecks();
    await using server = await serving({ codecs: checks.codecs });
    const calls = await callsOf(server, 4);
    for (const { call, stream } of calls) {
      stream.pause();
      call.http2.write(frame(bytesOf(stepRequest(1_000_000))).subarray(0, 40_000));
      await new Promise((resolve) => call.session.ping(resolve));
    }
    for (const { stream } of calls) {
      stream.resume();
    }
    await expect.poll(() => checks.bytes()).toBe(4 * (40_000 - 5));
    // At most the three chunks of one stream, and those of the next, whose turn began in the same turn of this test.
    expect(checks.mostInTurn()).toBeLessThanOrEqual(6);
  });

  test("that wait for a turn are counted with what is read ahead, also if the receiver then pauses", async () => {
    const checks = slowChecks();
    const buffered = new BufferedBytes({
      maxBufferedBytes: 2 ** 30,
      maxBufferedBytesPerConnection: 2 ** 30,
      stalledMessageMs: 0,
    });
    onTestFinished(() => buffered.stop());
    await using server = await serving({ codecs: checks.codecs, buffered });
    await using busy = rawCall(server.address);
    record(await server.next());
    busy.http2.write(frame(bytesOf(stepRequest(8_000_000))));
    await expect.poll(() => checks.bytes()).toBeGreaterThan(0);
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    const dataOf = (bytes: Uint8Array): Buffer => http2Frame(frameTypes.data, 0, 1, bytes);
    peer.write(dataOf(Buffer.alloc(12_000, frame(bytesOf(named("a"))))));
    await served.seen("message");
    await busy[Symbol.asyncDispose]();
    await expect.poll(() => server.listener.streams).toBe(1);
    const tiny = dataOf(Buffer.alloc(9));
    peer.write(Buffer.alloc(2_000 * tiny.length, tiny));
    await expect.poll(() => buffered.bytes, { timeout: 10_000 }).toBeGreaterThan(2_000 * 200);
  });

  test("that exceed a limit of the codec once inflated are refused, and later requests are answered", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, gzip);
    const served = echo(await server.next());
    const large = gzipSync(Buffer.alloc(3_000_000, Buffer.of(0xa0, 1, 1)), { level: 1 });
    call.http2.end(Buffer.concat([frame(large, 1), frame(bytesOf(named("next")))]));
    expect(await served.closed).toBeUndefined();
    expect(served.messages).toMatchObject([
      { case: "malformed", value: { message: expect.stringContaining("(limit: maxMessageWork)") } },
      { case: "joinWorld" },
    ]);
  });

  test("that say that they are small are counted while they are inflated", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, gzip);
    const served = record(await server.next());
    const large = gzipSync(randomBytes(300_000));
    large.writeUInt32LE(0, large.length - 4); // The inflated size, at the end of gzip.
    const release = await blockThreadPool();
    call.http2.write(frame(large, 1));
    await expect.poll(() => server.listener.bufferedBytes).toBeGreaterThan(300_000);
    await new Promise((resolve) => call.session.ping(resolve));
    expect(server.listener.bufferedBytes).toBeGreaterThan(300_000);
    release();
    expect(await codeOf(served.closed)).toBe("INTERNAL");
  });

  test("that inflate beyond the limit are refused", async () => {
    await using server = await serving({ maxMessageBytes: 100_000 });
    await using call = rawCall(server.address, gzip);
    const stream = await server.next();
    const served = record(stream);
    const bomb = gzipSync(bytesOf(stepRequest(10_000_000)));
    expect(bomb.length).toBeLessThan(100_000);
    call.http2.write(frame(bomb, 1));
    await served.seen("end");
    expect(served.messages.map((message) => message.case)).toEqual(["malformed"]);
    stream.end();
    expect(await codeOf(served.closed)).toBe("RESOURCE_EXHAUSTED");
    const trailers = await call.trailers;
    expect(trailers?.["grpc-status"]).toBe(String(statusCodes.RESOURCE_EXHAUSTED));
    expect(trailers?.["grpc-message"]).toContain("100000");
  });

  test("above the limit are dropped as they arrive, while earlier requests wait for their responses", async () => {
    await using server = await serving({ maxMessageBytes: 100_000 });
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream);
    call.http2.write(frame(bytesOf(named("a"))));
    const header = Buffer.alloc(5);
    const chunk = Buffer.alloc(1024 * 1024);
    const chunks = 64;
    header.writeUInt32BE(chunks * chunk.length, 1);
    call.http2.write(header);
    await served.seen("end");
    const before = reachableArrayBuffers();
    for (let sent = 0; sent < chunks; sent++) {
      // The callback runs once the server has read the chunk: the window is 4 MiB.
      await new Promise((resolve) => call.http2.write(chunk, resolve));
    }
    // V8 frees buffers in the background.
    await expect.poll(() => reachableArrayBuffers() - before).toBeLessThan(16 * 1024 * 1024);
    expect(served.messages.map((message) => message.case)).toEqual(["joinWorld", "malformed"]);
    stream.send(answered("a"));
    stream.end();
    expect((await call.trailers)?.["grpc-status"]).toBe(String(statusCodes.RESOURCE_EXHAUSTED));
  });

  test("whose gzip is malformed close only their own stream", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, gzip);
    const served = record(await server.next());
    call.http2.write(frame(Buffer.from("no gzip at all"), 1));
    expect(await codeOf(served.closed)).toBe("INTERNAL");
    expect((await call.trailers)?.["grpc-status"]).toBe("13");
    expect(call.session.closed).toBe(false);
  });

  test("compressed in another way are UNIMPLEMENTED, and the error names the supported encodings", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, { "grpc-encoding": "snappy" });
    const trailers = await call.trailers;
    expect(trailers?.["grpc-status"]).toBe(String(statusCodes.UNIMPLEMENTED));
    expect(trailers?.["grpc-message"]).toContain("expected gzip or identity, received snappy");
    expect(trailers?.["grpc-accept-encoding"]).toBe("identity,gzip");
  });

  test("compressed without a grpc-encoding are malformed", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = record(await server.next());
    call.http2.write(frame(gzipSync(bytesOf(named("a"))), 1));
    expect(await codeOf(served.closed)).toBe("INTERNAL");
    expect((await call.trailers)?.["grpc-message"]).toContain("grpc-encoding");
  });

  test("behaviour 9: are delivered as malformed if they cannot be decoded, and the stream continues", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    call.http2.write(frame(Buffer.from([0xff, 0xff, 0xff])));
    call.http2.write(frame(bytesOf(named("next"))));
    await served.seen("message", 2);
    expect(served.messages.map((message) => message.case)).toEqual(["malformed", "joinWorld"]);
  });

  test("behaviour 9: close only their own stream if their framing is malformed", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    call.http2.write(Buffer.concat([frame(bytesOf(named("a"))), Buffer.alloc(20, 0xee)]));
    expect(await codeOf(served.closed)).toBe("INTERNAL");
    expect(served.messages.map(nameOf)).toEqual(["a"]);
    expect((await call.trailers)?.["grpc-message"]).toContain("malformed gRPC frame");
    expect(call.session.closed).toBe(false);
  });

  test("behaviour 9: close their stream, if their framing is malformed, also while many others wait", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    // Nine chunks wait before the stream is started: the eighth breaks the framing.
    for (let chunk = 1; chunk <= 9; chunk++) {
      const bytes = chunk < 8 ? frame(bytesOf(named("a"))) : Buffer.of(2, 0, 0, 0, 0);
      await new Promise((resolve) => call.http2.write(bytes, resolve));
    }
    await new Promise((resolve) => call.session.ping(resolve));
    const served = record(stream);
    expect(await codeOf(served.closed)).toBe("INTERNAL");
    await call.trailers;
    await expect.poll(() => server.listener.streams).toBe(0);
    expect(call.session.closed).toBe(false);
  });

  test("behaviour 9: are malformed, not an end, if a half-close cuts them off", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = record(await server.next());
    call.http2.end(frame(bytesOf(named("a"))).subarray(0, 6));
    expect(await codeOf(served.closed)).toBe("INTERNAL");
    expect(served.events).toEqual(["close"]);
    expect((await call.trailers)?.["grpc-status"]).toBe("13");
  });
});

describe("behaviour 8: the peer is lost", () => {
  test("when it resets the stream inside a message", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = record(await server.next());
    call.http2.write(frame(bytesOf(named("a"))).subarray(0, 7));
    await call.response;
    call.cancel();
    expect(await codeOf(served.closed)).toBe("CANCELLED");
    expect(served.events).toEqual(["close"]);
  });

  test.each([
    [constants.NGHTTP2_REFUSED_STREAM, "UNAVAILABLE"],
    [constants.NGHTTP2_CANCEL, "CANCELLED"],
    [constants.NGHTTP2_ENHANCE_YOUR_CALM, "RESOURCE_EXHAUSTED"],
    [constants.NGHTTP2_INADEQUATE_SECURITY, "PERMISSION_DENIED"],
    [constants.NGHTTP2_INTERNAL_ERROR, "INTERNAL"],
    [constants.NGHTTP2_PROTOCOL_ERROR, "INTERNAL"],
    [constants.NGHTTP2_NO_ERROR, "CANCELLED"],
  ])("with reset code %i, its error has the status %s", async (rstCode, code) => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = record(await server.next());
    await call.response;
    call.http2.close(rstCode);
    expect(await codeOf(served.closed)).toBe(code);
  });

  test("when its socket is destroyed while the stream is paused and messages are unread", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    // More bytes than the stream itself buffers, so that some wait in node:http2.
    const bytes = frame(bytesOf(stepRequest(1_000)));
    call.http2.write(Buffer.concat(Array.from({ length: 1_000 }, () => bytes)));
    await served.seen("message");
    call.socket.destroy();
    expect(await codeOf(served.closed)).toBe("UNAVAILABLE");
    expect(served.events).toEqual(["message", "close"]);
  });

  test("when it resets the stream while it is paused and megabytes are unread", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    const bytes = frame(bytesOf(stepRequest(100_000)));
    for (let i = 0; i < 30; i++) {
      call.http2.write(bytes);
    }
    await served.seen("message");
    await new Promise((resolve) => call.session.ping(resolve));
    call.http2.close(constants.NGHTTP2_CANCEL);
    expect(await codeOf(served.closed)).toBe("CANCELLED");
    expect(served.events.filter((event) => event === "end")).toEqual([]);
  });

  test("when it resets the stream without an error while it is paused and megabytes are unread", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    call.http2.write(Buffer.alloc(3_000_000, frame(bytesOf(stepRequest(1_000)))));
    await served.seen("message");
    await new Promise((resolve) => call.session.ping(resolve));
    call.http2.close(constants.NGHTTP2_NO_ERROR);
    expect(await codeOf(served.closed)).toBe("CANCELLED");
    expect(served.events).toEqual(["message", "close"]);
  });

  test("when it resets the stream without an error while a response waits for its window", async () => {
    await using server = await serving();
    await using peer = rawPeer(server.listener.port);
    peer.write(
      preface,
      settingsFrame([[constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0]]),
      http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, headersOfCall(processPath)),
    );
    const stream = await server.next();
    const served = record(stream);
    stream.send(stepResponse(1_000));
    await expect.poll(() => server.listener.bufferedBytes).toBeGreaterThan(1_000);
    peer.write(http2Frame(frameTypes.rstStream, 0, 1, Buffer.alloc(4)));
    expect(await codeOf(served.closed)).toBe("CANCELLED");
    await expect.poll(() => server.listener.streams).toBe(0);
    expect(server.listener.bufferedBytes).toBe(0);
  });

  test("when it resets a refused request without an error while the response waits for its window", async () => {
    await using server = await serving({ maxStreamsPerConnection: 10 });
    await using peer = rawPeer(server.listener.port);
    const path = headersOfCall("/chess.v1.Board/Move", "text/chess");
    const opened: ServerHttp2Stream[] = [];
    const onStart = (message: unknown) => {
      opened.push((message as { stream: ServerHttp2Stream }).stream);
    };
    subscribe("http2.server.stream.start", onStart);
    onTestFinished(() => void unsubscribe("http2.server.stream.start", onStart));
    peer.write(
      preface,
      settingsFrame([[constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0]]),
      http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, path),
      http2Frame(frameTypes.data, 0, 1, Buffer.alloc(1)),
    );
    await expect.poll(() => opened[0]?.writableEnded).toBe(true);
    expect(opened[0]?.destroyed).toBe(false);
    peer.write(http2Frame(frameTypes.rstStream, 0, 1, Buffer.alloc(4)));
    await expect.poll(() => opened[0]?.destroyed).toBe(true);
  });

  test("when its half-close and its reset arrive in one packet", async () => {
    await using server = await serving();
    const message = frame(bytesOf(named("a")));
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall);
    const served = record(await server.next());
    peer.write(
      http2Frame(frameTypes.data, frameFlags.endStream, 1, message),
      http2Frame(frameTypes.rstStream, 0, 1, Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL)),
    );
    expect(await codeOf(served.closed)).toBe("CANCELLED");
    expect(served.events).not.toContain("end");
  });

  test("when it sends half a message, stalls, and is killed", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = record(await server.next());
    const header = Buffer.alloc(5);
    header.writeUInt32BE(60_000_000, 1);
    const before = reachableArrayBuffers();
    // The tag and the length of a step.
    call.http2.write(Buffer.concat([header, Buffer.of(0x1a, 0xfb, 0x8d, 0xce, 0x1c)]));
    await new Promise((resolve) => call.session.ping(resolve));
    expect(reachableArrayBuffers() - before).toBeLessThan(1024 * 1024);
    expect(served.events).toEqual([]);
    call.socket.destroy();
    expect(await codeOf(served.closed)).toBe("UNAVAILABLE");
  });

  test("when it half-closes and dies before it is answered", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream);
    call.http2.end(frame(bytesOf(named("a"))));
    await served.seen("end");
    call.socket.destroy();
    expect(await codeOf(served.closed)).toBe("UNAVAILABLE");
    expect(served.events).toEqual(["message", "end", "close"]);
  });

  test("when it dies before the stream is started", async () => {
    await using server = await serving();
    const call = rawCall(server.address);
    const stream = await server.next();
    call.http2.write(frame(bytesOf(named("a"))));
    await call.response;
    await call[Symbol.asyncDispose]();
    while (server.listener.connections > 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const served = record(stream);
    expect(await codeOf(served.closed)).toBe("UNAVAILABLE");
    expect(served.events).toEqual(["close"]);
  });
});

describe("backpressure", () => {
  test("makes send return false for a client that never reads, so that memory stays bounded", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, {}, { read: false, windowBytes: 65_535 });
    const stream = await server.next();
    const served = record(stream);
    let sent = 0;
    while (stream.send(stepResponse(50_000))) {
      sent += 1;
      await new Promise((resolve) => setImmediate(resolve));
      expect(sent).toBeLessThan(100);
    }
    // At most the flow-control window and the stream's own buffer.
    expect(sent * 50_000).toBeLessThan(1_000_000);
    expect(served.events).toEqual([]);
    call.http2.resume();
    await served.seen("drain");
    expect(stream.send(stepResponse(10))).toBe(true);
  });

  test("of one stream with megabytes does not block other streams of its connection", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, {}, { read: false, windowBytes: 65_535 });
    const stream = await server.next();
    record(stream);
    stream.send(stepResponse(15_000_000));
    await new Promise((resolve) => setImmediate(resolve));
    const second = call.session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/grpc",
    });
    second.resume();
    const served = echo(await server.next());
    second.end(frame(bytesOf(named("a"))));
    expect(await served.closed).toBeUndefined();
  });

  test("lets a client send at most one flow-control window to a server that stops reading", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream);
    stream.pause();
    const bytes = frame(bytesOf(stepRequest(100_000)));
    let written = 0;
    for (let i = 0; i < 200; i++) {
      call.http2.write(bytes, () => {
        written += 1;
      });
    }
    // The peer answers pings but reads no more data: its buffers are full.
    for (let before = -1; before < written; ) {
      before = written;
      for (let i = 0; i < 20; i++) {
        await new Promise((resolve) => call.session.ping(resolve));
      }
    }
    expect(written * bytes.length).toBeLessThan(5 * 1024 * 1024);
    stream.resume();
    await served.seen("message", 200);
  });

  test("of a paused stream does not delay the other streams of its connection", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const paused = await server.next();
    record(paused);
    paused.pause();
    call.http2.write(Buffer.alloc(8 * 1024 * 1024, frame(bytesOf(stepRequest(100_000)))));
    const second = call.session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/grpc",
    });
    second.resume();
    const served = echo(await server.next());
    for (let i = 0; i < 10; i++) {
      second.write(frame(bytesOf(stepRequest(1_000_000))));
    }
    await served.seen("message", 10);
  });

  test("lets other work run between many messages that arrived during a pause", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    let longest = 0;
    let inTurn = 0;
    const served = record(stream, {
      onMessage: () => {
        inTurn += 1;
        longest = Math.max(longest, inTurn);
      },
    });
    stream.pause();
    const one = frame(bytesOf(named("w")));
    const count = Math.floor((3 * 1024 * 1024) / one.length);
    call.http2.write(Buffer.alloc(count * one.length, one));
    for (let i = 0; i < 50; i++) {
      await new Promise((resolve) => call.session.ping(resolve));
    }
    let turning = true;
    const turn = (): void => {
      inTurn = 0;
      if (turning) {
        setImmediate(turn);
      }
    };
    turn();
    stream.resume();
    await served.seen("message", count);
    turning = false;
    expect(longest).toBeLessThan(count / 4);
  });
});

describe("the end", () => {
  test("behaviour 8: is sent as trailers after the client has half-closed", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    call.http2.end(frame(bytesOf(named("a"))));
    expect((await call.trailers)?.["grpc-status"]).toBe("0");
    expect(await served.closed).toBeUndefined();
    expect(served.events).toEqual(["message", "end", "close"]);
  });

  test.each([
    ["headers", [], frameFlags.endStream],
    ["an empty DATA frame", [http2Frame(frameTypes.data, frameFlags.endStream, 1)], 0],
    [
      "a message",
      [http2Frame(frameTypes.data, frameFlags.endStream, 1, frame(bytesOf(named("a"))))],
      0,
    ],
  ])(
    "of the client's side is delivered even if it arrives with %s before the stream starts",
    async (_last, frames, flags) => {
      await using server = await serving();
      await using peer = rawPeer(server.listener.port);
      const call = headersOfCall(processPath);
      peer.write(
        preface,
        settingsFrame([]),
        http2Frame(frameTypes.headers, frameFlags.endHeaders | flags, 1, call),
        ...frames,
        http2Frame(frameTypes.headers, frameFlags.endHeaders, 3, call),
      );
      const stream = await server.next();
      record(await server.next()); // The end of the first stream has arrived, too.
      for (let turn = 0; turn < 3; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const served = record(stream, { onEnd: () => stream.end() });
      await served.seen("end");
      await served.closed;
    },
  );

  test("of the server's side reaches a client that keeps sending", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.end() });
    const bytes = frame(bytesOf(stepRequest(10_000)));
    const sending = setInterval(() => call.http2.write(bytes), 1);
    expect((await call.trailers)?.["grpc-status"]).toBe("0");
    clearInterval(sending);
    expect(await served.closed).toBeUndefined();
    expect(served.messages).toHaveLength(1);
    expect(call.http2.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
  });

  test("of a refused call leaves its client 250 ms for DATA that it has sent already", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const trailers = new Promise((resolve) => call.http2.once("trailers", resolve));
      stream.countRefused?.();
      stream.abort(new DmEnvRpcError("RESOURCE_EXHAUSTED", "too many"));
      expect(await trailers).toMatchObject({ "grpc-status": "8" });
      let isClosed = false;
      const closed = new Promise<void>((resolve) => {
        call.http2.once("close", () => {
          isClosed = true;
          resolve();
        });
      });
      for (let ms = 0; ms < 249; ms++) {
        vi.advanceTimersByTime(1);
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(isClosed).toBe(false);
      vi.advanceTimersByTime(1);
      await closed;
      expect(call.http2.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
    } finally {
      vi.useRealTimers();
    }
  });

  test("follows once earlier messages are sent", async () => {
    await using server = await serving();
    await using stream = await openStream(server.address);
    const client = record(stream);
    const accepted = await server.next();
    const served = record(accepted);
    for (let i = 0; i < 50; i++) {
      accepted.send(stepResponse(100_000));
    }
    accepted.end();
    expect(await client.closed).toBeUndefined();
    expect(client.messages).toHaveLength(50);
    expect(await served.closed).toBeUndefined();
  });

  test("by an abort drops the bytes that a client does not read", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, {}, { read: false, windowBytes: 65_535 });
    const stream = await server.next();
    const served = record(stream);
    while (stream.send(stepResponse(50_000))) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    stream.abort(new DmEnvRpcError("RESOURCE_EXHAUSTED", "too slow"));
    expect(await codeOf(served.closed)).toBe("RESOURCE_EXHAUSTED");
    await call.trailers;
    expect(call.http2.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  });

  test("by an abort closes the stream of a client that does not even read its socket", async () => {
    await using server = await serving();
    await using peer = rawPeer(server.listener.port);
    peer.socket.pause();
    const anyWindow = 2 ** 31 - 1;
    const credit = Buffer.alloc(4);
    credit.writeUInt32BE(anyWindow - 65_535);
    const stream = server.next();
    peer.write(
      preface,
      settingsFrame([[constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, anyWindow]]),
      http2Frame(frameTypes.windowUpdate, 0, 0, credit),
      http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, headersOfCall(processPath)),
    );
    const accepted = await stream;
    const served = record(accepted);
    accepted.send(stepResponse(32_000_000)); // More than the buffers of both sockets hold.
    await new Promise((resolve) => setTimeout(resolve));
    accepted.abort(new DmEnvRpcError("RESOURCE_EXHAUSTED", "too slow"));
    expect(await codeOf(served.closed)).toBe("RESOURCE_EXHAUSTED");
    await expect.poll(() => server.listener.streams).toBe(0);
  });

  test("is an error if the client's deadline has passed", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, { "grpc-timeout": "30m" });
    const served = record(await server.next());
    expect(await codeOf(served.closed)).toBe("DEADLINE_EXCEEDED");
    expect((await call.trailers)?.["grpc-status"]).toBe(String(statusCodes.DEADLINE_EXCEEDED));
  });

  test("by an abort from inside a handler is reported after the handler returns", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    const stream = await server.next();
    let inside = false;
    const served = record(stream, {
      onMessage: () => {
        inside = true;
        stream.abort(new DmEnvRpcError("PERMISSION_DENIED", "no"));
        inside = false;
      },
      onClose: () => expect(inside).toBe(false),
    });
    call.http2.write(Buffer.concat([frame(bytesOf(named("a"))), frame(bytesOf(named("b")))]));
    expect(await codeOf(served.closed)).toBe("PERMISSION_DENIED");
    expect(served.events).toEqual(["message", "close"]);
    expect((await call.trailers)?.["grpc-status"]).toBe(String(statusCodes.PERMISSION_DENIED));
    expect(stream.send(answered("too late"))).toBe(true);
  });
});

interface Call {
  readonly call: RawCall;
  readonly stream: ServerStream;
  readonly served: Recorder<ProcessRequest>;
}

/** Makes calls of Process on connections of their own. */
async function callsOf(
  server: Serving,
  count: number,
  headers?: OutgoingHttpHeaders,
): Promise<Call[]> {
  const calls: Call[] = [];
  for (let i = 0; i < count; i++) {
    const call = rawCall(server.address, headers);
    onTestFinished(() => call[Symbol.asyncDispose]());
    const stream = await server.next();
    calls.push({ call, stream, served: record(stream) });
  }
  return calls;
}
