// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
} from "@dm-env-rpc/tests-processes";
import { describe, expect, test, vi } from "vitest";
import { openStream } from "../open/open-stream.ts";
import { errorOf } from "../testing/error-of.ts";
import { floodUntilWaiting } from "../testing/flooding.ts";
import { answerOf, named, nameOf } from "../testing/messages.ts";
import { bytesOf, frame, rawCall } from "../testing/raw-call.ts";
import { rawPeer, startOfCall } from "../testing/raw-peer.ts";
import { record } from "../testing/recorder.ts";
import { echo, serving } from "../testing/serving.ts";
import { listen } from "./listen.ts";

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("a listener", () => {
  test("reports its address", async () => {
    await using server = await serving();
    const { listener } = server;
    expect(listener.host).toBe("127.0.0.1");
    expect(listener.port).toBeGreaterThan(0);
    expect(listener.url).toBe(`http://127.0.0.1:${listener.port}`);
    expect([listener.connections, listener.streams]).toEqual([0, 0]);
  });

  test("listens on IPv6", async () => {
    await using server = await serving({ host: "::1" });
    expect(server.listener.url).toBe(`http://[::1]:${server.listener.port}`);
    await using stream = await openStream(server.listener.url);
    const accepted = await server.next();
    expect(accepted.peer.address).toMatch(/^\[::1\]:\d+$/);
    record(accepted);
    record(stream);
  });

  test("sets the windows of a connection and of its streams to 4 MiB", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    record(await server.next());
    await until(() => (call.session.state.remoteWindowSize ?? 0) >= 4 * 1024 * 1024);
    expect(call.session.remoteSettings.initialWindowSize).toBe(4 * 1024 * 1024);
  });

  test("counts its connections and its streams", async () => {
    await using server = await serving();
    await using first = await openStream(server.address);
    await using second = await openStream(server.address);
    const streams = [first, second].map((stream) => record(stream));
    for (let i = 0; i < 2; i++) {
      echo(await server.next());
    }
    expect([server.listener.connections, server.listener.streams]).toEqual([2, 2]);
    first.end();
    await streams[0]?.closed;
    await until(() => server.listener.streams === 1);
    await until(() => server.listener.connections === 1);
  });

  test("serves a hundred streams of one connection, and answers each in order", async () => {
    await using server = await serving();
    await using call = rawCall(server.address);
    record(await server.next());
    const streams = Array.from({ length: 100 }, () =>
      call.session.request({
        ":method": "POST",
        ":path": "/dm_env_rpc.v1.Environment/Process",
        "content-type": "application/grpc+proto",
      }),
    );
    const served = [];
    for (const stream of streams) {
      stream.resume();
      served.push(echo(await server.next()));
    }
    for (let round = 0; round < 10; round++) {
      for (const [i, stream] of streams.entries()) {
        stream.write(frame(bytesOf(named(`${i}: ${round}`))));
      }
    }
    for (const stream of streams) {
      stream.end();
    }
    for (const [i, recorder] of served.entries()) {
      expect(await recorder.closed).toBeUndefined();
      expect(recorder.messages.map(nameOf)).toEqual(
        Array.from({ length: 10 }, (_, round) => `${i}: ${round}`),
      );
    }
  });

  test.each([
    [{ port: 70_000 }, "a port from 0 to 65535"],
    [{ host: "no-such-host.invalid" }, "a host name that resolves"],
    [{ host: "192.0.2.1" }, "an address of this machine"],
  ])("rejects with the reason why it cannot listen: %j", async (options, expected) => {
    const error = await listen({ onStream: () => {}, ...options }).catch((thrown) => thrown);
    expect(errorOf(error).message).toContain(expected);
  });

  test("that fails to listen leaves no timers", async () => {
    await using server = await serving();
    const { port } = server.listener;
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      await expect(listen({ onStream: () => {}, port })).rejects.toThrow("a free port");
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("fails on a port in use, with the remedy", async () => {
    await using server = await serving();
    const { port } = server.listener;
    const error = await listen({ onStream: () => {}, port }).catch((thrown) => thrown);
    expect(errorOf(error).code).toBe("UNAVAILABLE");
    expect(errorOf(error).message).toBe(
      `cannot listen on 127.0.0.1:${port}: expected a free port, but something listens there already; stop it, or choose another port (0 picks a free one)`,
    );
  });
});

describe("a request other than a gRPC call of Process", () => {
  test("for an unknown path of gRPC is UNIMPLEMENTED", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, { ":path": "/dm_env_rpc.v1.Environment/Nothing" });
    const trailers = await call.trailers;
    expect(trailers?.["grpc-status"]).toBe(String(statusCodes.UNIMPLEMENTED));
    expect(trailers?.["grpc-message"]).toContain("/dm_env_rpc.v1.Environment/Nothing");
  });

  test.each([
    ["to an unknown path gets 404", { ":path": "/", "content-type": "text/plain" }, 404],
    ["with another method gets 405", { ":method": "PUT" }, 405],
    ["with another content type gets 415", { "content-type": "text/plain" }, 415],
    [
      "over gRPC in an unknown encoding gets 415",
      { "content-type": "application/grpc+thrift" },
      415,
    ],
  ])("%s", async (_name, headers, status) => {
    await using server = await serving();
    await using call = rawCall(server.address, headers);
    call.http2.end();
    expect((await call.response)[":status"]).toBe(status);
    await call.trailers;
    expect(server.listener.streams).toBe(0);
    expect(server.errors).toEqual([]);
  });

  test("that arrives with hundreds of other requests waits, so that few are answered in a turn", async () => {
    const answers = new Map<number, number>();
    let turn = 0;
    let timer = setImmediate(function count() {
      turn += 1;
      timer = setImmediate(count);
    });
    const check = () => {
      answers.set(turn, (answers.get(turn) ?? 0) + 1);
      const since = performance.now();
      while (performance.now() - since < 1) {
        // A call takes a millisecond.
      }
      return { status: HealthCheckResponse_ServingStatus.SERVING };
    };
    await using server = await serving({
      routes: (router) => router.service(Health, { check }),
    });
    await using peer = rawPeer(server.listener.port);
    const head = headersOfCall("/grpc.health.v1.Health/Check");
    const calls = Array.from({ length: 200 }, (_, i) => [
      http2Frame(frameTypes.headers, frameFlags.endHeaders, 1 + 2 * i, head),
      http2Frame(frameTypes.data, frameFlags.endStream, 1 + 2 * i, frame(Buffer.alloc(0))),
    ]);
    peer.write(preface, emptySettings, ...calls.flat());
    const answered = (): number => [...answers.values()].reduce((sum, count) => sum + count, 0);
    await until(() => answered() === calls.length);
    clearImmediate(timer);
    expect(Math.max(...answers.values())).toBeLessThan(40);
  });

  test("closes its stream even if the client never ends the request", async () => {
    await using server = await serving();
    await using call = rawCall(server.address, {
      ":path": "/nothing",
      "content-type": "text/plain",
    });
    expect((await call.response)[":status"]).toBe(404);
    await call.trailers;
    expect(call.http2.closed).toBe(true);
  });
});

describe("hostile connections", () => {
  test("bytes that are not HTTP/2 close their connection and are reported, and other connections stay open", async () => {
    await using server = await serving();
    await using stream = await openStream(server.address);
    const client = record(stream);
    echo(await server.next());
    for (const garbage of [
      Buffer.from("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      Buffer.alloc(100_000, 0xa5),
      Buffer.concat([preface, Buffer.alloc(1_000, 0xff)]),
      Buffer.concat([preface, emptySettings, Buffer.from("ffffff000000000001", "hex")]),
      preface.subarray(0, 10),
    ]) {
      const socket = connectTcp(server.listener.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.resume();
      socket.end(garbage);
      await new Promise((resolve) => socket.once("close", resolve)); // The close is a reset if bytes were unread.
    }
    await until(() => server.listener.connections === 1);
    expect(server.errors.length).toBeGreaterThan(0);
    stream.send(named("still here"));
    await client.seen("message");
    expect(client.messages.map(answerOf)).toEqual(["still here"]);
  });

  test("a preface that arrives byte by byte is HTTP/2 and does not delay other clients", async () => {
    await using server = await serving();
    await using peer = rawPeer(server.listener.port);
    peer.socket.setNoDelay(true);
    for (const byte of startOfCall.subarray(0, 4)) {
      peer.write(Buffer.of(byte));
      // Another client is served in the meantime.
      await using stream = await openStream(server.address);
      record(stream);
      record(await server.next());
    }
    peer.write(startOfCall.subarray(4));
    record(await server.next());
  });

  test("behaviour 8: a peer that does not answer a ping is disconnected", async () => {
    await using server = await serving({ pingIntervalMs: 20 });
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall); // Nothing more is sent.
    const stream = await server.next();
    const served = record(stream);
    stream.pause();
    const error = errorOf(await served.closed);
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain("did not answer a ping within 20 ms");
    await until(() => server.listener.connections === 0);
  });

  const callForgotten = Buffer.concat([
    startOfCall,
    http2Frame(frameTypes.goAway, 0, 0, Buffer.alloc(8)), // node:http2 waits for the last stream.
    // A CONTINUATION that follows no HEADERS: node:http2 stops reading.
    http2Frame(frameTypes.continuation, frameFlags.endHeaders, 3),
  ]);

  test.each(["pingIntervalMs", "idleConnectionMs"])(
    "a connection that node:http2 forgets is closed by %s",
    async (limit) => {
      await using server = await serving({
        pingIntervalMs: 0,
        idleConnectionMs: 0,
        [limit]: 20,
      });
      const next = server.next();
      let stream: Awaited<typeof next> | undefined;
      // If the machine pauses, a connection is closed as idle before its call arrives.
      while (stream === undefined) {
        await using peer = rawPeer(server.listener.port);
        peer.write(callForgotten);
        stream = await Promise.race([next, once(peer.socket, "close").then(() => undefined)]);
      }
      const error = errorOf(await record(stream).closed);
      expect(error.code).toBe("UNAVAILABLE");
      expect(error.message).toContain("did not answer");
      await until(() => server.listener.connections === 0);
    },
  );

  test("a connection that node:http2 forgets is closed long before pings detect it, but no other that has sent a GOAWAY", async () => {
    await using server = await serving({ pingIntervalMs: 0, idleConnectionMs: 0 });
    await using call = rawCall(server.address);
    const leaving = echo(await server.next());
    call.session.goaway();
    await using peer = rawPeer(server.listener.port);
    peer.write(callForgotten);
    const error = errorOf(await record(await server.next()).closed);
    expect(error.message).toContain("did not answer");
    await until(() => server.listener.connections === 1);
    expect(leaving.events).toEqual([]);
    call.http2.write(frame(bytesOf(named("still here"))));
    await leaving.seen("message");
  });

  test("a socket is closed even if the peer leaves its side of the connection open", async () => {
    await using server = await serving({ idleConnectionMs: 20 });
    const silent = connectTcp({
      port: server.listener.port,
      host: "127.0.0.1",
      allowHalfOpen: true,
    });
    silent.on("error", () => {});
    silent.resume();
    silent.write(Buffer.concat([preface, emptySettings]));
    await once(silent, "end");
    await until(() => server.listener.connections === 0);
    silent.destroy();
  });

  test("a peer that has sent a GOAWAY and answers pings stays connected", async () => {
    await using server = await serving({ pingIntervalMs: 5 });
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    call.session.goaway();
    call.session.close();
    let probes = 0;
    call.session.on("remoteSettings", () => {
      probes += 1;
    });
    await until(() => probes >= 10);
    expect(served.events).toEqual([]);
    call.http2.write(frame(bytesOf(named("still here"))));
    await served.seen("message");
  });

  test("a peer that answers its pings stays connected", async () => {
    await using server = await serving({ pingIntervalMs: 5 });
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    let pings = 0;
    call.session.on("ping", () => {
      pings += 1;
    });
    await until(() => pings >= 10);
    expect(served.events).toEqual([]);
  });

  test("a connection that opens no stream is closed after idleConnectionMs", async () => {
    await using server = await serving({ idleConnectionMs: 500 });
    const silent = connectTcp(server.listener.port, "127.0.0.1");
    const session = connectHttp2(server.listener.url);
    let goaway: number | undefined;
    session.on("goaway", (code) => {
      goaway = code;
    });
    await using stream = await openStream(server.address);
    const client = record(stream);
    const served = echo(await server.next());
    silent.resume();
    await Promise.all([once(silent, "close"), once(session, "close")]);
    expect(goaway).toBe(constants.NGHTTP2_NO_ERROR);
    // A connection with a stream outlives a connection without one.
    const later = connectTcp(server.listener.port, "127.0.0.1").resume();
    await once(later, "close");
    await until(() => server.listener.connections === 1);
    expect([client.events, served.events]).toEqual([[], []]);
  });

  test.each(["maxConnections", "maxConnectionsPerAddress"])(
    "a connection above %s is refused with the reason, and all other connections stay open",
    async (limit) => {
      await using server = await serving({ [limit]: 1 });
      await using first = await openStream(server.address);
      const client = record(first);
      echo(await server.next());
      const refused = await openStream(server.address).then(
        async (stream) => (await record(stream).closed) as Error,
        (error: Error) => error,
      );
      expect(errorOf(refused).code).toBe("RESOURCE_EXHAUSTED");
      expect(errorOf(refused).message).toContain(`${limit}:`);
      expect(server.errors.map((error) => error.message).join()).toContain(`(${limit})`);
      first.send(named("still here"));
      await client.seen("message");
    },
  );

  test.each(["maxConnections", "maxConnectionsPerAddress"])(
    "an HTTP/1.1 connection above %s is refused with the reason, and a closed connection no longer counts",
    async (limit) => {
      await using server = await serving({ [limit]: 2 });
      await using _stream = await openStream(server.address);
      const dial = (): Socket => {
        const socket = connectTcp(server.listener.port, "127.0.0.1").setEncoding("utf8");
        socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
        return socket;
      };
      const first = dial();
      expect(String(await once(first, "data"))).toMatch(/^HTTP\/1.1 404/);
      const second = dial();
      let told = "";
      for await (const chunk of second) {
        told += String(chunk);
      }
      expect(told).toMatch(/^HTTP\/1.1 503 .*retry-after: 1/s);
      expect(told).toContain(`${limit}: at most 2; try again later`);
      // The connection of a client that sends no request closes soon.
      const silent = connectTcp(server.listener.port, "127.0.0.1").resume();
      silent.write("GET / HTTP/1.1\r\n");
      await once(silent, "close");
      expect(server.errors.map((error) => error.message).join()).toContain(`(${limit})`);
      first.end();
      await once(first, "close");
      await until(() => server.listener.connections === 1);
      const third = dial();
      expect(String(await once(third, "data"))).toMatch(/^HTTP\/1.1 404/);
      third.destroy();
    },
  );

  test("sockets far above maxConnections are not accepted", async () => {
    await using server = await serving({ maxConnections: 1 });
    const sockets = Array.from({ length: 300 }, () =>
      connectTcp(server.listener.port, "127.0.0.1")
        .on("error", () => {})
        .resume(),
    );
    await Promise.race(sockets.map((socket) => once(socket, "close")));
    expect(server.listener.connections).toBeLessThan(260);
    for (const socket of sockets) {
      socket.destroy();
    }
  });

  test("a stream above maxStreamsPerConnection waits or is refused, and the other streams continue", async () => {
    await using server = await serving({ maxStreamsPerConnection: 2 });
    await using call = rawCall(server.address);
    const served = echo(await server.next());
    await new Promise((resolve) => call.session.ping(resolve));
    expect(call.session.remoteSettings.maxConcurrentStreams).toBe(2);
    call.http2.write(frame(bytesOf(named("a"))));
    await served.seen("message");
  });
});

describe("a further port of a listener", () => {
  test.each(["maxConnections", "maxConnectionsPerAddress"])(
    "has no connections of its own beside %s",
    async (limit) => {
      await using server = await serving({ [limit]: 2, onStream: echo });
      const { listener } = server;
      await using further = await listener.addPort({ onStream: echo });
      const open = (port: number) => openStream(`127.0.0.1:${port}`);
      await using first = await open(listener.port);
      await using second = await open(further.port);
      const client = record(second);
      for (const port of [listener.port, further.port]) {
        const refused = await open(port).then(
          async (stream) => {
            const seen = record(stream);
            stream.send(named("one more"));
            const answered = seen.seen("message").then(() => new Error("answered"));
            return (await Promise.race([seen.closed, answered])) as Error;
          },
          (error: Error) => error,
        );
        expect(refused.message).toContain(`${limit}:`);
      }
      second.send(named("still here"));
      await client.seen("message");
      await first.close();
      await until(() => listener.connections === 0 && further.connections === 1);
      await using third = await open(further.port);
      third.send(named("again"));
      await record(third).seen("message");
    },
  );

  test("closes alone: connections to the first port continue, and new ones are accepted", async () => {
    await using server = await serving();
    const further = await server.listener.addPort({ onStream: echo });
    await further.close({ graceMs: 0 });
    await expect(openStream(`127.0.0.1:${further.port}`)).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    await using stream = await openStream(server.address);
    const client = record(stream);
    echo(await server.next());
    stream.send(named("here"));
    await client.seen("message");
  });

  test("cannot be added once the listener closes", async () => {
    const { listener } = await serving();
    const adding = listener.addPort({ onStream: echo });
    const closed = listener.close();
    for (const refused of [adding, closed.then(() => listener.addPort({ onStream: echo }))]) {
      await expect(refused).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    }
  });

  test("closes its connections that wait because of floods on any port", async () => {
    const maxFloodsPerAddress = 1;
    await using server = await serving({ maxFloodsPerAddress });
    const further = await server.listener.addPort({ onStream: echo });
    const dial = (port: number): Socket =>
      connectTcp(port, "127.0.0.1")
        .on("error", () => {})
        .resume();
    const violation = http2Frame(frameTypes.data, 0, 0, Buffer.of(0));
    const { opening } = await floodUntilWaiting(server.listener, {
      maxFloodsPerAddress,
      // Floods on the first port count for the further port, too.
      async flood() {
        const socket = dial(server.listener.port);
        socket.write(Buffer.concat([preface, emptySettings, violation]));
        await once(socket, "close");
      },
      async open() {
        const socket = dial(further.port);
        socket.write(Buffer.concat([preface, emptySettings]));
        await Promise.race([
          new Promise((resolve) => socket.once("data", resolve)),
          new Promise((resolve) => socket.once("close", resolve)),
        ]);
        return socket;
      },
      close: async (socket) => void socket.destroy(),
    });
    await further.close({ graceMs: 600_000 });
    expect((await opening).bytesRead).toBe(0); // It was never served.
  });
});

describe("closing", () => {
  test("lets open streams end within the grace period and refuses new streams", async () => {
    const server = await serving();
    await using call = rawCall(server.address);
    const goaway = once(call.session, "goaway");
    const served = echo(await server.next());
    const closing = server.listener.close({ graceMs: 30_000 });
    await goaway;
    const error = await openStream(server.address).catch((thrown) => thrown);
    expect(errorOf(error).message).toContain("no server listens");
    call.http2.write(frame(bytesOf(named("last"))));
    await served.seen("message");
    call.http2.end();
    expect((await call.trailers)?.["grpc-status"]).toBe("0");
    expect(await served.closed).toBeUndefined();
    await closing;
    expect([server.listener.connections, server.listener.streams]).toEqual([0, 0]);
  });

  test("cuts remaining streams after the grace period", async () => {
    const server = await serving();
    await using stream = await openStream(server.address);
    const client = record(stream);
    const served = record(await server.next());
    const silent = connectTcp(server.listener.port, "127.0.0.1");
    await once(silent, "connect");
    silent.resume();
    await server.listener.close({ graceMs: 10 });
    expect(errorOf(await served.closed).code).toBe("UNAVAILABLE");
    expect(errorOf(await client.closed).code).toBe("UNAVAILABLE");
    expect([server.listener.connections, server.listener.streams]).toEqual([0, 0]);
  });

  test("is idempotent, and the shorter of two grace periods applies", async () => {
    const server = await serving();
    await using stream = await openStream(server.address);
    record(stream);
    record(await server.next());
    const slow = server.listener.close({ graceMs: 60_000 });
    await server.listener.close({ graceMs: 0 });
    await slow;
    await server.listener.close();
    await server.listener[Symbol.asyncDispose]();
  });
});
