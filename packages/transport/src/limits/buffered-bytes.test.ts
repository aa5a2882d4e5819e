// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { constants } from "node:http2";
import { gzipSync } from "node:zlib";
import type { ConnectRouter } from "@connectrpc/connect";
import { Health } from "@dm-env-rpc/protocol/health";
import {
  emptySettings,
  field,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
} from "@dm-env-rpc/tests-processes";
import { describe, expect, test } from "vitest";
import type { ListenOptions } from "../listen/listen-options.ts";
import { openConnectStream } from "../open/open-connect-stream.ts";
import { openStream } from "../open/open-stream.ts";
import type { OpenedStream } from "../open/opened-stream.ts";
import { collectGarbage, reachableArrayBuffers } from "../testing/memory.ts";
import { stepRequest, stepResponse } from "../testing/messages.ts";
import { bytesOf, frame, rawCall } from "../testing/raw-call.ts";
import { rawPeer, startOfCall } from "../testing/raw-peer.ts";
import { record } from "../testing/recorder.ts";
import { type Serving, serving } from "../testing/serving.ts";
import { BufferedBytes, connectionBytes } from "./buffered-bytes.ts";

const half = (bytes: number): Buffer =>
  frame(field(20, Buffer.alloc(2 * bytes))).subarray(0, 5 + bytes);

/** Sends each part on a connection and stream of its own. */
function callEach(server: Serving, parts: readonly Buffer[], headers = {}) {
  return parts.map((bytes) => {
    const call = rawCall(server.address, headers);
    call.http2.write(bytes);
    return call;
  });
}

/** Accepts and starts the next streams; with `pausing`, each pauses at its first message. */
async function taking(server: Serving, count: number, pausing = false) {
  const taken = [];
  for (let i = 0; i < count; i++) {
    const stream = await server.next();
    taken.push(record(stream, pausing ? { onMessage: () => stream.pause() } : {}));
  }
  return taken;
}

test("incomplete messages above the limit of a connection end one of its streams", async () => {
  await using server = await serving({ maxBufferedBytesPerConnection: 100_000 });
  await using call = rawCall(server.address);
  const path = { ":method": "POST", ":path": "/dm_env_rpc.v1.Environment/Process" };
  const second = call.session.request({ ...path, "content-type": "application/grpc" });
  second.resume();
  const [one, two] = await taking(server, 2);
  call.http2.write(half(90_000));
  second.write(half(60_000));
  await Promise.race([one?.seen("close"), two?.seen("close")]);
  const ends = [one, two].filter((end) => end?.error !== undefined);
  expect(ends).toHaveLength(1);
  expect(ends[0]?.error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(String(ends[0]?.error)).toContain("limit: maxBufferedBytesPerConnection");
});

test("one message of one stream always fits", async () => {
  await using server = await serving({ maxBufferedBytesPerConnection: 1000 });
  await using call = rawCall(server.address);
  call.http2.write(frame(bytesOf(stepRequest(200_000))));
  const [stream] = await taking(server, 1);
  await stream?.seen("message");
});

test("above the limit of a server, the stream with the most buffered bytes is ended", async () => {
  await using server = await serving({ maxBufferedBytes: 300_000 });
  const calls = callEach(server, [half(250_000)]);
  const [large] = await taking(server, 1);
  calls.push(...callEach(server, [half(30_000), half(30_000)]));
  const small = await taking(server, 2);
  await large?.seen("close");
  expect(String(large?.error)).toContain("limit: maxBufferedBytes)");
  expect(small.map(({ error }) => error)).toEqual([undefined, undefined]);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("inflated messages are counted until they are delivered", async () => {
  await using server = await serving({ maxBufferedBytes: 1_500_000 });
  const bomb = frame(gzipSync(bytesOf(stepRequest(1_000_000))), 1);
  const calls = callEach(server, [bomb, bomb], { "grpc-encoding": "gzip" });
  const streams = await taking(server, 2, true);
  await Promise.race(streams.map((stream) => stream.seen("close")));
  expect(streams.filter(({ error }) => error === undefined)).toHaveLength(1);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("gzip data larger than its declared size is not inflated further", async () => {
  await using server = await serving();
  const lie = gzipSync(Buffer.alloc(1_000_000));
  lie.writeUInt32LE(10, lie.length - 4);
  const calls = callEach(server, [frame(lie, 1)], { "grpc-encoding": "gzip" });
  const [stream] = await taking(server, 1);
  await stream?.seen("close");
  expect(String(stream?.error)).toContain("expected the declared 10 bytes, received more");
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("an incomplete message ends its stream if it stalls, but not if it is slow", async () => {
  await using server = await serving({ stalledMessageMs: 200 });
  const calls = callEach(server, [half(1000), half(1000), half(1000).subarray(0, 3)]);
  const streams = await taking(server, 3);
  const [, moving] = calls;
  const drip = setInterval(() => moving?.http2.write(Buffer.alloc(1)), 10);
  const stalled = streams.map(async (stream) => {
    await stream.seen("close");
    return stream;
  });
  const first = await Promise.race(stalled);
  expect(first.error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(String(first.error)).toContain("limit: stalledMessageMs");
  expect(streams[1]?.error).toBe(undefined);
  clearInterval(drip);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test.each([
  ["in its length", half(1000).subarray(0, 3)],
  ["after its length", half(1000).subarray(0, 5)],
  // Its rest is dropped, because it has too many fields.
  ["once it is refused", frame(Buffer.alloc(2 ** 21, Buffer.of(0xa0, 1, 1))).subarray(0, 2 ** 20)],
])("a message that stalls %s ends its stream", async (_where, part) => {
  await using server = await serving({ stalledMessageMs: 20 });
  await using call = rawCall(server.address);
  const [stream] = await taking(server, 1);
  call.http2.write(part);
  expect(await stream?.closed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(server.listener.refusals.get("stalledMessageMs")).toBe(1);
});

test("messages that arrive in the same pieces, one after the other, do not count as stalled", async () => {
  const limits = { maxBufferedBytes: 100, maxBufferedBytesPerConnection: 100 };
  const buffered = new BufferedBytes({ ...limits, stalledMessageMs: 8 });
  const connection = connectionBytes("192.0.2.1:1");
  let receivedChunks = 1;
  const failed: string[] = [];
  let stalls: () => void = () => {};
  const stalled = new Promise<void>((resolve) => {
    stalls = resolve;
  });
  const open = (name: string, chunks: () => number) =>
    buffered.open(connection, {
      isWaitingForPeer: true,
      get receivedChunks() {
        return chunks();
      },
      unreportedBytes: 0,
      fail: () => {
        failed.push(name);
        stalls();
      },
    });
  open("playing", () => {
    receivedChunks += 2; // The rest of a message, and the first bytes of the next one.
    return receivedChunks;
  }).hold(10);
  open("stalled", () => 1).hold(10);
  await stalled;
  buffered.stop();
  expect(failed).toEqual(["stalled"]);
});

test("a stream that waits for its receiver does not count as stalled", async () => {
  await using server = await serving({ stalledMessageMs: 100 });
  const message = frame(bytesOf(stepRequest(1000)));
  const calls = callEach(server, [Buffer.concat([message, message.subarray(0, 500)]), half(1000)]);
  const [paused, stalled] = await taking(server, 2, true);
  await Promise.race([paused?.seen("close"), stalled?.seen("close")]);
  expect([paused, stalled].filter((stream) => stream?.error !== undefined)).toHaveLength(1);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

/** Adds a health service that returns a long list. */
function withLongList(router: ConnectRouter): void {
  const names = Array.from({ length: 10_000 }, (_, i) => `service ${i}`);
  router.service(Health, {
    list: () => ({ statuses: Object.fromEntries(names.map((name) => [name, { status: 1 }])) }),
  });
}

const listPath = { ":path": "/grpc.health.v1.Health/List" };

test("the bytes that node:http2 reads ahead for a paused stream are counted", async () => {
  await using server = await serving({ maxBufferedBytes: 2_000_000 });
  const message = frame(bytesOf(stepRequest(1000)));
  const calls = callEach(server, [Buffer.concat(Array<Buffer>(3000).fill(message))]);
  const [filled] = await taking(server, 1, true);
  calls.push(...callEach(server, [message]));
  const [neighbour] = await taking(server, 1, true);
  await filled?.seen("close");
  expect(filled?.error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(String(filled?.error)).toContain("limit: maxBufferedBytes)");
  expect(neighbour?.error).toBe(undefined);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("requests that are read ahead are counted twice while their peer does not read the responses", async () => {
  await using server = await serving({ maxBufferedBytes: 4_000_000 });
  await using deaf = rawCall(server.address, {}, { windowBytes: 0 });
  await using hearing = rawCall(server.address);
  const message = frame(bytesOf(stepRequest(1000)));
  const requests = Buffer.concat(Array<Buffer>(1_700).fill(message));
  const recorders = [];
  for (const call of [deaf, hearing]) {
    const stream = await server.next();
    const pauses = { onMessage: () => stream.pause() };
    recorders.push(record(stream, pauses));
    if (call === deaf) {
      stream.send(stepResponse(300_000));
    }
    call.http2.write(requests);
  }
  const [unread, read] = recorders;
  const ended = { code: "RESOURCE_EXHAUSTED" };
  await expect.poll(() => unread?.error).toMatchObject(ended);
  expect(read?.error).toBe(undefined);
});

test("a response that a peer does not read is counted, and ends only its own stream", async () => {
  await using server = await serving({ maxBufferedBytes: 1_000_000 });
  await using deaf = rawCall(server.address, {}, { windowBytes: 0 });
  const toDeaf = await server.next();
  await using hearing = rawCall(server.address);
  const toHearing = await server.next();
  const [unread, read] = [record(toDeaf), record(toHearing)];
  toDeaf.send(stepResponse(2_000_000));
  toHearing.send(stepResponse(1000));
  expect(await unread.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  await deaf.trailers;
  expect(deaf.http2.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  hearing.http2.end();
  await read.seen("end");
  expect(read.events).not.toContain("close");
});

test("the bytes of an ended stream are counted while its peer does not read them", async () => {
  await using server = await serving({ maxBufferedBytes: 1_000_000 });
  await using deaf = rawCall(server.address, {}, { windowBytes: 0 });
  const stream = await server.next();
  record(stream);
  stream.send(stepResponse(2_000_000));
  stream.end();
  await deaf.trailers;
  expect(deaf.http2.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
});

test("the response of another service is counted while its peer does not read it", async () => {
  await using server = await serving({ maxBufferedBytes: 100_000, routes: withLongList });
  await using deaf = rawCall(server.address, listPath, { windowBytes: 0 });
  await using _neighbour = rawCall(server.address);
  const served = record(await server.next());
  deaf.http2.end(frame(Buffer.alloc(0)));
  await deaf.trailers;
  expect(deaf.http2.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  expect(served.events).toEqual([]);
});

test.each(["application/connect+proto", "application/connect+json"])(
  "responses over Connect are counted while their client does not read them: %s",
  async (type) => {
    await using server = await serving({ maxBufferedBytes: 100_000 });
    await using _deaf = rawCall(server.address, { "content-type": type }, { windowBytes: 0 });
    const stream = await server.next();
    const served = record(stream);
    for (let i = 0; i < 10; i++) {
      stream.send(stepResponse(20_000));
    }
    expect(await served.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  },
);

describe("a request that is incomplete is counted", () => {
  const checkPath = "/grpc.health.v1.Health/Check";
  const withHealth: Partial<ListenOptions> = {
    maxBufferedBytes: 150_000,
    onStream: (stream) => void record(stream), // Reads its requests.
    routes: (router) => router.service(Health, {}),
    byteStreams: new Map([[checkPath, async () => {}]]),
  };

  test.each([
    [
      "to a route in JSON",
      { ":path": checkPath, "content-type": "application/json" },
      half(60_000),
    ],
    ["to a route by gRPC", { ":path": checkPath }, frame(Buffer.alloc(60_000))],
    [
      "to a route by Connect's library",
      { ":path": checkPath, "grpc-encoding": "gzip" },
      half(60_000),
    ],
  ])("%s", async (_kind, headers, part) => {
    await using server = await serving(withHealth);
    const calls = callEach(server, [part, part, part], headers);
    const { ":status": status, "grpc-status": code } = await Promise.race(
      calls.map(({ response }) => response),
    );
    expect(code ?? status).toBe("content-type" in headers ? 429 : "8");
    expect(server.listener.refusals.get("maxBufferedBytes")).toBe(1);
    for (const call of calls) {
      await call[Symbol.asyncDispose]();
    }
  });

  test("to Process in JSON", async () => {
    await using server = await serving(withHealth);
    const part = half(60_000);
    const calls = callEach(server, [part, part, part], {
      "content-type": "application/connect+json",
    });
    await Promise.race(calls.map(({ http2 }) => once(http2, "close")));
    expect(server.listener.refusals.get("maxBufferedBytes")).toBe(1);
    for (const call of calls) {
      await call[Symbol.asyncDispose]();
    }
  });

  test.each([
    ["through Connect's library", "application/json"],
    ["as bytes", "application/grpc-web+proto"],
  ])("over HTTP/1.1, %s", async (_how, type) => {
    await using server = await serving(withHealth);
    const head = `POST ${checkPath} HTTP/1.1\r\nhost: here\r\ncontent-type: ${type}\r\ncontent-length: 60010\r\n\r\n`;
    const peers = Array.from({ length: 3 }, () => rawPeer(server.listener.port));
    for (const peer of peers) {
      peer.write(Buffer.from(head), frame(Buffer.alloc(60_004)).subarray(0, 60_005));
    }
    await Promise.race(peers.map(({ socket }) => once(socket, "close")));
    expect(server.listener.refusals.get("maxBufferedBytes")).toBe(1);
    for (const peer of peers) {
      await peer[Symbol.asyncDispose]();
    }
  });
});

describe("while more than a quarter of the limit is buffered", () => {
  test("the accounts of all streams are tight", () => {
    const buffered = new BufferedBytes({
      maxBufferedBytes: 1_000,
      maxBufferedBytesPerConnection: 1_000,
      stalledMessageMs: 0,
    });
    const holder = { isWaitingForPeer: false, unreportedBytes: 0, fail: () => {} };
    const account = buffered.open(connectionBytes("192.0.2.1:1"), holder);
    const other = buffered.open(connectionBytes("192.0.2.2:1"), holder);
    account.hold(250);
    expect(other.isTight).toBe(false);
    account.hold(251);
    expect(other.isTight).toBe(true);
    account.close();
    expect(other.isTight).toBe(false);
    buffered.stop();
  });

  test.each<[string, (address: string) => Promise<OpenedStream>]>([
    ["gRPC", (address) => openStream(address)],
    ["WebSocket", (address) => openStream(`ws://${address}`)],
    ["Connect", (address) => openConnectStream(address)],
  ])(
    "a stream over %s is full at 16 KiB, and drains when its peer reads",
    async (_carrier, open) => {
      await using server = await serving({ maxBufferedBytes: 4_000_000 });
      await using deaf = rawCall(server.address, {}, { windowBytes: 0 });
      const toDeaf = await server.next();
      record(toDeaf);
      toDeaf.send(stepResponse(2_000_000));
      await new Promise((resolve) => setImmediate(resolve)); // `send` writes at the end of the turn.
      const client = await open(server.address);
      const received = record(client);
      const stream = await server.next();
      const served = record(stream);
      let sent = 1;
      while (stream.send(stepResponse(20_000))) {
        sent += 1;
      }
      expect(sent).toBeLessThan(5);
      await served.seen("drain");
      await received.seen("message", sent);
      await client.close();
      deaf.http2.close();
    },
  );
});

test("when a stream ends because its peer does not read, its bytes are freed", async () => {
  await using server = await serving({ maxBufferedBytes: 4_000_000 });
  await using deaf = rawCall(server.address, {}, { windowBytes: 0 });
  const stream = await server.next();
  const served = record(stream);
  const before = reachableArrayBuffers();
  deaf.socket.pause();
  stream.send(stepResponse(8_000_000));
  await served.closed;
  await expect.poll(() => reachableArrayBuffers() - before).toBeLessThan(4_000_000);
});

describe("above the limit", () => {
  const limits = {
    maxBufferedBytes: 100,
    maxBufferedBytesPerConnection: 1000,
    stalledMessageMs: 0,
  };

  /** Opens accounts on one connection of an address; each records its failure in `failed`. */
  function accounts(buffered: BufferedBytes, address: string, count: number, failed: string[]) {
    const connection = connectionBytes(address);
    return Array.from({ length: count }, (_, i) => {
      const account = buffered.open(connection, {
        isWaitingForPeer: false,
        unreportedBytes: 0,
        fail: () => {
          failed.push(`${address} ${i}`);
          account.close();
        },
      });
      return account;
    });
  }

  test("a stream of the address with the most bytes ends, rather than the largest stream", () => {
    const buffered = new BufferedBytes(limits);
    const failed: string[] = [];
    const [large] = accounts(buffered, "192.0.2.1:1", 1, failed);
    large?.hold(40);
    for (let port = 1; port <= 4; port++) {
      for (const account of accounts(buffered, `192.0.2.2:${port}`, 2, failed)) {
        account.hold(6 + port);
      }
    }
    expect(failed).toEqual(["192.0.2.2:4 0"]);
    buffered.stop();
  });

  test("the bytes of thousands of streams are not counted again for each chunk", () => {
    const buffered = new BufferedBytes(limits);
    let looks = 0;
    const holder = {
      isWaitingForPeer: false,
      get unreportedBytes() {
        looks += 1;
        return 0;
      },
      fail: () => {},
    };
    const streams = Array.from({ length: 4_000 }, (_, i) =>
      buffered.open(connectionBytes(`192.0.2.1:${i}`), holder),
    );
    const sinceMs = performance.now();
    for (const stream of streams) {
      stream.hold(1);
    }
    const mostCounts = 2 + (performance.now() - sinceMs) / 15; // 256 streams per millisecond
    expect(looks).toBeLessThanOrEqual(mostCounts * streams.length);
    buffered.stop();
  });

  test("streams end one by one until the remaining streams are within the limit", () => {
    const buffered = new BufferedBytes({ ...limits, maxBufferedBytesPerConnection: 50 });
    const failed: string[] = [];
    const [first, second, third] = accounts(buffered, "192.0.2.1:1", 3, failed);
    first?.hold(20);
    second?.hold(25);
    third?.hold(30);
    expect(failed).toEqual(["192.0.2.1:1 2"]);
    buffered.stop();
  });
});

test("messages are inflated in turn, 16 MiB at a time, and 100,000 messages of ended streams are skipped", () => {
  const limits = { maxBufferedBytes: 0, maxBufferedBytesPerConnection: 0, stalledMessageMs: 0 };
  const buffered = new BufferedBytes(limits);
  const holder = { isWaitingForPeer: false, unreportedBytes: 0, fail: () => {} };
  const account = buffered.open(connectionBytes("192.0.2.1:1"), holder);
  const mebibyte = 1024 * 1024;
  const running: (() => void)[] = [];
  for (const bytes of [60 * mebibyte, 10 * mebibyte, 6 * mebibyte]) {
    account.inflateInTurn(bytes, (finished) => running.push(finished));
  }
  for (let i = 0; i < 100_000; i++) {
    account.inflateInTurn(mebibyte, (finished) => finished());
  }
  let last = false;
  account.inflateInTurn(mebibyte, () => {
    last = true;
  });
  expect(running.length).toBe(1);
  running[0]?.();
  expect([running.length, last]).toEqual([3, false]);
  running[1]?.();
  expect(last).toBe(true);
  buffered.stop();
});

test("a stream that counts too many bytes ends in the same turn, and `fail` is called again if the stream still holds bytes at the next survey", async () => {
  const limits = {
    maxBufferedBytes: 100,
    maxBufferedBytesPerConnection: 1000,
    stalledMessageMs: 0,
  };
  const buffered = new BufferedBytes(limits);
  let unreportedBytes = 90;
  let failures = 0;
  const account = buffered.open(connectionBytes("192.0.2.1:1"), {
    isWaitingForPeer: false,
    get unreportedBytes() {
      return unreportedBytes;
    },
    fail: () => {
      failures += 1;
    },
  });
  account.count();
  expect(failures).toBe(0);
  unreportedBytes = 110;
  account.count();
  account.count();
  expect(failures).toBe(1);
  unreportedBytes = 50;
  await expect.poll(() => failures).toBe(2);
  buffered.stop();
});

test("a closed account does not keep its stream alive", async () => {
  const limits = { maxBufferedBytes: 100, maxBufferedBytesPerConnection: 100, stalledMessageMs: 0 };
  const buffered = new BufferedBytes(limits);
  const open = () => {
    const holder = { isWaitingForPeer: false, unreportedBytes: 10, fail: () => {} };
    return {
      account: buffered.open(connectionBytes("192.0.2.1:1"), holder),
      weak: new WeakRef(holder),
    };
  };
  const { account, weak } = open();
  account.close();
  await new Promise((resolve) => setImmediate(resolve)); // A WeakRef keeps its object until the end of the turn.
  collectGarbage();
  expect(weak.deref()).toBeUndefined();
  account.close();
  buffered.stop();
});

test("an ended stream has several turns to write its error, even if a survey follows at once", async () => {
  const limits = {
    maxBufferedBytes: 100,
    maxBufferedBytesPerConnection: 1000,
    stalledMessageMs: 0,
  };
  const buffered = new BufferedBytes(limits);
  let failures = 0;
  const account = buffered.open(connectionBytes("192.0.2.1:1"), {
    isWaitingForPeer: false,
    unreportedBytes: 110,
    fail: () => {
      failures += 1;
    },
  });
  account.count();
  const busyUntilMs = performance.now() + 200;
  while (performance.now() < busyUntilMs) {
    // The survey is overdue afterwards.
  }
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    expect(failures).toBe(1);
  }
  await expect.poll(() => failures).toBe(2);
  buffered.stop();
});

test("an ended stream that frees its bytes only after the next survey does not end another stream", async () => {
  const limits = {
    maxBufferedBytes: 100,
    maxBufferedBytesPerConnection: 1000,
    stalledMessageMs: 0,
  };
  const buffered = new BufferedBytes(limits);
  const failed: string[] = [];
  const open = (name: string, unreportedBytes: number, port: number) => {
    const fail = () => {
      failed.push(name);
      if (failed.length === 2) {
        queueMicrotask(() => slow.close()); // After this survey, and before any other.
      }
    };
    const holder = { isWaitingForPeer: false, unreportedBytes, fail };
    return buffered.open(connectionBytes(`192.0.2.${port}:1`), holder);
  };
  const slow = open("slow", 80, 1);
  slow.count();
  open("neighbour", 60, 2).count();
  expect(failed).toEqual(["slow"]);
  await expect.poll(() => failed.length).toBeGreaterThan(1);
  expect(failed).toEqual(["slow", "slow"]);
  buffered.stop();
});

test("another stream's bytes do not end a stream whose peer has read everything since the survey", () => {
  const limits = {
    maxBufferedBytes: 100,
    maxBufferedBytesPerConnection: 1000,
    stalledMessageMs: 0,
  };
  const buffered = new BufferedBytes(limits);
  const failed: string[] = [];
  const open = (name: string, port: number) => {
    const holder = { isWaitingForPeer: false, unreportedBytes: 0, fail: () => failed.push(name) };
    const account = buffered.open(connectionBytes(`192.0.2.${port}:1`), holder);
    return {
      hold: (bytes: number) => {
        holder.unreportedBytes = bytes;
      },
      count: () => account.count(),
    };
  };
  const reads = open("reads", 1);
  const deaf = open("deaf", 2);
  reads.hold(80);
  reads.count();
  reads.hold(0);
  deaf.hold(60);
  deaf.count();
  expect(failed).toEqual([]);
  deaf.hold(101);
  deaf.count();
  expect(failed).toEqual(["deaf"]);
  buffered.stop();
});

test("messages that the receiver has queued are counted", async () => {
  await using server = await serving({ maxBufferedBytes: 500_000 });
  await using call = rawCall(server.address);
  const stream = await server.next();
  let queuedBytes = 400_000;
  const closed = new Promise<Error | undefined>((resolve) => {
    stream.start({
      get queuedBytes() {
        return queuedBytes;
      },
      onMessage() {
        queuedBytes = 600_000;
        call.http2.write(frame(bytesOf(stepRequest(1000))));
      },
      onEnd() {},
      onDrain() {},
      onClose: resolve,
    });
  });
  call.http2.write(frame(bytesOf(stepRequest(1000))));
  expect(await closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
});

test("a message in 10,000 DATA frames of one byte ends its stream, and a message in 1,000 does not", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  const pieces = (bytes: Uint8Array) =>
    [...bytes].map((byte) => http2Frame(frameTypes.data, 0, 1, Uint8Array.of(byte)));
  const message = frame(bytesOf(stepRequest(900)));
  peer.write(startOfCall, ...pieces(message));
  const stream = record(await server.next());
  await stream.seen("message");
  peer.write(...pieces(frame(Buffer.alloc(10_000))));
  const error = await stream.closed;
  expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(String(error)).toContain("too many pieces");
});

test("the pieces of a network count together, and those of another network do not", () => {
  const buffered = new BufferedBytes({
    maxBufferedBytes: 1_000,
    maxBufferedBytesPerConnection: 1_000,
    stalledMessageMs: 0,
  });
  try {
    const accountOf = (address: string) =>
      buffered.open(connectionBytes(address), {
        isWaitingForPeer: true,
        unreportedBytes: 0,
        fail() {},
      });
    const accounts = [accountOf("192.0.2.1:1"), accountOf("192.0.2.1:2")];
    const admitted = Array.from({ length: 4_000 }, (_, i) => accounts[i % 2]?.piece() === true);
    expect(admitted.lastIndexOf(true)).toBe(2_047);
    expect(accountOf("192.0.2.2:1").piece()).toBe(true);
  } finally {
    buffered.stop();
  }
});

test("a call of another service that arrives in 10,000 pieces is reset", async () => {
  await using server = await serving({ routes: withLongList });
  await using peer = rawPeer(server.listener.port);
  const received: Buffer[] = [];
  peer.socket.on("data", (chunk: Buffer) => received.push(chunk));
  const call = headersOfCall(listPath[":path"]);
  const pieces = Array.from({ length: 10_000 }, () =>
    http2Frame(frameTypes.data, 0, 1, Buffer.alloc(6)),
  );
  peer.write(
    preface,
    emptySettings,
    http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, call),
  );
  peer.write(...pieces);
  const enhanceYourCalm = Buffer.of(0, 0, 0, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  const reset = http2Frame(frameTypes.rstStream, 0, 1, enhanceYourCalm);
  await expect.poll(() => Buffer.concat(received).includes(reset)).toBe(true);
});
