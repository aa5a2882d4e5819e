// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { expect, test } from "vitest";
import { LoopTurns, ThreadShare } from "../../internal/turns/thread-share.ts";
import { BufferedBytes } from "../../limits/buffered-bytes.ts";
import { listenLimits } from "../../limits/listen-limits.ts";
import { processPath } from "../../stream/process-path.ts";
import { authority, serverPair } from "../../testing/certificates.ts";
import { floodUntilWaiting } from "../../testing/flooding.ts";
import { rawPeer } from "../../testing/raw-peer.ts";
import { type Serving, serving } from "../../testing/serving.ts";
import { subprotocol } from "../../websocket/protocol.ts";
import type { ListenOptions } from "../listen-options.ts";
import { RefusedRequests } from "../requests/refused-requests.ts";
import { Http1Server } from "./http1-server.ts";

const health = "/grpc.health.v1.Health";

/** Watches end with their connection. */
const routes: NonNullable<ListenOptions["routes"]> = (router) =>
  router.service(Health, {
    check: ({ service }) => {
      const isLong = service.length > 1_000;
      return { status: HealthCheckResponse_ServingStatus[isLong ? "NOT_SERVING" : "SERVING"] };
    },
    async *watch(_request, { signal }) {
      yield { status: HealthCheckResponse_ServingStatus.SERVING };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  });

const get = "GET /nowhere HTTP/1.1\r\nhost: here\r\n\r\n";

function post(path: string, contentType: string, body: string, length = body.length): string {
  return `POST ${path} HTTP/1.1\r\nhost: here\r\ncontent-type: ${contentType}\r\ncontent-length: ${length}\r\n\r\n${body}`;
}

function check(service = ""): string {
  return post(`${health}/Check`, "application/json", JSON.stringify({ service }));
}

/** Sends text, and returns what the server answers until it closes the connection or `isEnough`. */
async function ask(
  socket: Socket,
  text: string,
  isEnough: (answer: string) => boolean = () => false,
): Promise<string> {
  let answer = "";
  const done = new Promise<void>((resolve) => {
    socket.on("data", (chunk) => {
      answer += String(chunk);
      if (isEnough(answer)) {
        resolve();
      }
    });
    socket.once("close", () => resolve());
  });
  socket.write(text);
  await done;
  return answer;
}

function responses(answer: string): string[] {
  return [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = ""]) => status);
}

/**
 * Sends requests again as soon as all of them are answered, until the server closes the connection.
 *
 * @param most Number of answers after which nothing more is sent.
 * @returns The number of answers.
 */
async function askAgain(
  socket: Socket,
  requests: string,
  count: number,
  most: number = Number.POSITIVE_INFINITY,
): Promise<number> {
  let received = "";
  let answers = 0;
  let asked = count;
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.on("data", (chunk) => {
      received += chunk;
      answers = responses(received).length;
      if (answers === most) {
        resolve();
      } else if (answers === asked) {
        asked += count;
        socket.write(requests);
      }
    });
    socket.write(requests);
  });
  return answers;
}

function reported({ errors }: Serving): string {
  return errors.map(({ message }) => message).join("\n");
}

test("sixteen requests that arrive at once are answered in their order", async () => {
  await using server = await serving({ routes });
  await using peer = rawPeer(server.listener.port);
  const answer = await ask(
    peer.socket,
    `${check()}${get}`.repeat(8),
    (answer) => responses(answer).length === 16,
  );
  expect(responses(answer)).toEqual(Array(8).fill(["200", "404"]).flat());
  expect(server.errors).toEqual([]);
});

test("a connection with a seventeenth request that waits is ended, and counts as a flood", async () => {
  const maxFloodsPerAddress = 1;
  await using server = await serving({ routes, maxFloodsPerAddress });
  const watch = post(`${health}/Watch`, "application/connect+json", "\0\0\0\0\x02{}");
  const { opening } = await floodUntilWaiting(server.listener, {
    maxFloodsPerAddress,
    async flood() {
      await using peer = rawPeer(server.listener.port);
      await ask(peer.socket, watch.repeat(17));
      expect(reported(server)).toMatch(/connection of 127.0.0.1:\d+ ended: expected HTTP\/1\.1/);
    },
    async open() {
      await using peer = rawPeer(server.listener.port);
      return await ask(peer.socket, get, () => true);
    },
    async close() {},
  });
  expect(await opening).toContain("HTTP/1.1 404");
});

test("of thousands of requests in one read, few are answered", async () => {
  await using server = await serving({ routes });
  await using peer = rawPeer(server.listener.port);
  const answer = await ask(peer.socket, get.repeat(2_000));
  expect(responses(answer).length).toBeLessThan(100);
});

test("a connection whose requests are refused again and again is ended", async () => {
  await using server = await serving({ routes });
  await using peer = rawPeer(server.listener.port);
  const answers = await askAgain(peer.socket, get.repeat(16), 16);
  expect(answers).toBeGreaterThan(1_000);
  expect(reported(server)).toMatch(/connection of 127.0.0.1:\d+ ended/);
});

test.each([
  ["malformed requests", "GET nothing\r\n\r\n"],
  ["calls that are admitted, but refused later", check()],
])(
  "%s count as refused for all connections of an address, on all ports",
  async (_what, request) => {
    await using server = await serving({
      routes,
      maxFloodsPerAddress: 1_000_000,
      maxRequestsPerSecond: 0,
      onCall: (call) => () => call.refused(),
    });
    const { port } = server.listener;
    await using further = await server.listener.addPort({ onStream() {} });
    let hasEnded = false;
    while (!hasEnded) {
      // Connections that send one request each, when another connection has used up what may be refused.
      const peers = Array.from({ length: 300 }, () => rawPeer(port));
      await Promise.all(peers.map(({ socket }) => once(socket, "connect")));
      await using flooder = rawPeer(further.port);
      await askAgain(flooder.socket, get.repeat(16), 16);
      const errorsBefore = server.errors.length;
      const answers = peers.map(({ socket }) => ask(socket, request, () => true));
      expect(responses((await Promise.all(answers)).join(""))).toHaveLength(300);
      hasEnded = server.errors
        .slice(errorsBefore)
        .some(({ message }) => /connection of 127.0.0.1:\d+ ended/.test(message));
      for (const { socket } of peers) {
        socket.destroy();
      }
    }
  },
);

test("connections that end in the middle of a body do not count as refused", async () => {
  await using server = await serving({ routes, maxFloodsPerAddress: 0, maxRequestsPerSecond: 0 });
  const { port } = server.listener;
  const uploads = Array.from({ length: 50 }, () => rawPeer(port));
  for (const { socket } of uploads) {
    socket.write(post(`${health}/Check`, "application/json", "{", 2));
  }
  // Another connection uses up what may be refused.
  await using flooder = rawPeer(port);
  await askAgain(flooder.socket, get.repeat(16), 16);
  const errorsBefore = server.errors.length;
  const closed = uploads.map(({ socket }) => once(socket, "close"));
  for (const { socket } of uploads) {
    socket.end();
  }
  await Promise.all(closed);
  const errors = server.errors.slice(errorsBefore).map(({ message }) => message);
  expect(errors.filter((message) => /^Parse Error/.test(message))).toHaveLength(50);
  expect(errors.filter((message) => /ended/.test(message))).toEqual([]);
});

test.each([
  ["calls that wait", post(`${health}/Watch`, "application/connect+json", "\0\0\0\0\x02{}"), 16],
  ["an unfinished body", post(`${health}/Check`, "application/json", "{", 2), 1],
])("connections with %s that close together end in turns", async (_what, request, count) => {
  let turn = 0;
  const endedIn: number[] = [];
  let began = 0;
  await using server = await serving({
    routes,
    maxRequestsPerSecond: 0,
    onCall: () => {
      began += 1;
      return () => endedIn.push(turn);
    },
  });
  const peers = Array.from({ length: 20 }, () => rawPeer(server.listener.port));
  for (const { socket } of peers) {
    socket.write(request.repeat(count));
  }
  await expect.poll(() => began).toBe(20 * count);
  const nextTurn = (): void => {
    turn += 1;
    if (endedIn.length < began) {
      setImmediate(nextTurn);
    }
  };
  nextTurn();
  for (const { socket } of peers) {
    socket.resetAndDestroy();
  }
  await expect.poll(() => endedIn.length).toBe(began);
  const most = Math.max(
    ...endedIn.map((turn) => endedIn.lastIndexOf(turn) - endedIn.indexOf(turn) + 1),
  );
  expect(most).toBeLessThanOrEqual(16);
});

test.each([
  ["plain text", false],
  ["TLS", true],
])(
  "a destroyed connection whose turn to end has not come reads no more, over %s",
  async (_what, isTls) => {
    const uncaught: Error[] = [];
    const onUncaught = (error: Error): void => void uncaught.push(error);
    process.on("uncaughtExceptionMonitor", onUncaught);
    const tasks: (() => void)[] = [];
    const buffered = new BufferedBytes(listenLimits({}));
    const destroyed: Socket[] = [];
    const http1 = new Http1Server({
      idleConnectionMs: 0,
      buffered,
      share: new ThreadShare(
        new LoopTurns(
          () => 0,
          (task) => void tasks.push(task),
        ),
      ),
      refusedRequests: new RefusedRequests(true),
      refusalOf: () => undefined,
      onRequest({ request, response }) {
        if (request.url === "/nowhere") {
          response.end();
        } else {
          destroyed.push(request.socket);
          request.socket.destroy();
        }
      },
      onUpgrade() {},
      onFlood() {},
      onError() {},
    });
    const server = isTls ? createTlsServer(serverPair) : createServer();
    server.on(isTls ? "secureConnection" : "connection", (socket: Socket) => http1.add(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const open = (): Socket => {
      const host = "127.0.0.1";
      const socket = isTls ? connectTls({ port, host, ca: authority }) : connect({ port, host });
      return socket.on("error", () => {});
    };
    const ending = open();
    const closed = new Promise((resolve) => ending.once("close", resolve));
    ending.resume();
    ending.write(post("/upload", "text/plain", "s", 10_000));
    ending.write("s".repeat(1_000));
    await expect.poll(() => destroyed.length).toBe(1);
    await new Promise((resolve) => ending.write("s".repeat(1_000), resolve));
    // The server answers another connection once it has seen what arrived before.
    const other = open();
    expect(await ask(other, get, () => true)).toContain("HTTP/1.1 200");
    other.destroy();
    expect(destroyed[0]?.closed).toBe(false);
    for (const task of tasks.splice(0)) {
      task();
    }
    await closed;
    await expect.poll(() => destroyed[0]?.closed).toBe(true);
    expect(uncaught).toEqual([]);
    process.off("uncaughtExceptionMonitor", onUncaught);
    server.close();
    await once(server, "close");
    buffered.stop();
  },
);

test("requests that are answered may be any number", async () => {
  await using server = await serving({ routes, maxRequestsPerSecond: 0 });
  await using peer = rawPeer(server.listener.port);
  expect(await askAgain(peer.socket, check().repeat(16), 16, 1_600)).toBe(1_600);
  expect(server.errors).toEqual([]);
});

test("a body of many slices arrives whole", async () => {
  await using server = await serving({ routes });
  await using peer = rawPeer(server.listener.port);
  const isAnswered = (answer: string): boolean => answer.includes("}");
  expect(await ask(peer.socket, check("s".repeat(200_000)), isAnswered)).toContain("NOT_SERVING");
});

test("a body of many slices arrives whole over TLS", async () => {
  await using server = await serving({ routes, tls: serverPair });
  const { port } = server.listener;
  const socket = connectTls({
    port,
    host: "localhost",
    ca: authority,
    ALPNProtocols: ["http/1.1"],
  });
  const isAnswered = (answer: string): boolean => answer.includes("}");
  expect(await ask(socket, check("s".repeat(200_000)), isAnswered)).toContain("NOT_SERVING");
  socket.destroy();
});

test("idleStreamMs ends a call whose body stalls, but not a watch, nor a body that is slow", async () => {
  const idleStreamMs = 500;
  const json = "application/json";
  // If the machine pauses for too long, no body arrives in time, and the test plays again.
  for (let hasPaused = true; hasPaused; ) {
    await using server = await serving({ routes, idleStreamMs });
    const { port } = server.listener;
    await using watching = rawPeer(port);
    await using slow = rawPeer(port);
    await using stalled = rawPeer(port);
    const first = once(watching.socket, "data");
    watching.socket.write(post(`${health}/Watch`, "application/connect+json", "\0\0\0\0\x02{}"));
    await first;
    slow.socket.write(post(`${health}/Check`, json, " ", 10_000));
    let movedMs = performance.now();
    let longestMs = 0;
    const move = (): void => {
      const nowMs = performance.now();
      longestMs = Math.max(longestMs, nowMs - movedMs);
      movedMs = nowMs;
      slow.socket.write(" ");
    };
    const drip = setInterval(move, 20);
    stalled.socket.write(post(`${health}/Check`, json, "{", 2));
    await once(stalled.socket, "close");
    clearInterval(drip);
    move();
    hasPaused = longestMs > idleStreamMs / 2;
    expect(slow.socket.destroyed && !hasPaused).toBe(false);
    expect(watching.socket.destroyed).toBe(false);
  }
});

test("a WebSocket opens if its first frame arrives with more than a slice of bytes", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  const upgrade = [
    `GET ${processPath} HTTP/1.1`,
    "host: here",
    "connection: upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    `sec-websocket-protocol: ${subprotocol}`,
    "",
    "",
  ].join("\r\n");
  // A ping with a mask of zeros, after a frame of 20,000 bytes that is only a pong.
  const pongs = Buffer.concat(
    Array.from({ length: 200 }, () =>
      Buffer.concat([Buffer.of(0x8a, 0xe4, 0, 0, 0, 0), Buffer.alloc(100)]),
    ),
  );
  const ping = Buffer.of(0x89, 0x81, 0, 0, 0, 0, 0x2a);
  let answer = Buffer.alloc(0);
  const answered = new Promise<void>((resolve) => {
    peer.socket.on("data", (chunk) => {
      answer = Buffer.concat([answer, chunk]);
      if (answer.includes(Buffer.of(0x8a, 1, 0x2a))) {
        resolve();
      }
    });
  });
  peer.write(Buffer.from(upgrade), pongs, ping);
  await answered;
  expect(String(answer)).toMatch(/^HTTP\/1\.1 101 /);
});

test("calls by Connect's client over HTTP/1.1 reuse their connection", async () => {
  await using server = await serving({ routes });
  const transport = createConnectTransport({
    baseUrl: `http://${server.address}`,
    httpVersion: "1.1",
  });
  const client = createClient(Health, transport);
  for (let calls = 0; calls < 20; calls++) {
    expect((await client.check({ service: "s".repeat(10_000) })).status).toBe(
      HealthCheckResponse_ServingStatus.NOT_SERVING,
    );
  }
});
