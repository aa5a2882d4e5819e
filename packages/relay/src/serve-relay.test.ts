// SPDX-License-Identifier: Apache-2.0
import { connect as connectHttp2, constants } from "node:http2";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { connect } from "@dm-env-rpc/client";
import {
  EnvironmentRequestSchema,
  EnvironmentStateType,
  JoinWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { FrameSchema } from "@dm-env-rpc/protocol/relay";
import { dialOut } from "@dm-env-rpc/server";
import { callGhost, callUntilEnded } from "@dm-env-rpc/tests-processes";
import { type OpenedStream, openStream, type ServerStream } from "@dm-env-rpc/transport";
import { relayPath, relaySubprotocol } from "@dm-env-rpc/transport/internal/relay";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { counting } from "../testing/counting.ts";
import { dialed, gameToken, otherToken, serving, startProgram } from "../testing/relaying.ts";
import { serveRelay } from "./serve-relay.ts";

/** Joins the first world of a server. */
async function join(address: string, options: Parameters<typeof connect>[1] = {}) {
  const connection = await connect(address, options);
  const environment = await connection.join("counting-1", { as: counting });
  return { connection, environment };
}

/** Sends a small request that any program can answer. */
function ask(stream: OpenedStream): void {
  stream.send({ case: "joinWorld", value: create(JoinWorldRequestSchema, {}) });
}

const frame = new Uint8Array(100_000);

/** A response of 100 KB. */
function large(): Parameters<ServerStream["send"]>[0] {
  const tensor = { dtype: "uint8", shape: [frame.length], data: frame } as const;
  return {
    case: "step",
    value: { state: EnvironmentStateType.RUNNING, observations: [{ uid: 1, tensor }] },
  };
}

/** A program that receives streams and answers nothing. */
const silent = {
  ready: Promise.resolve(),
  accept(stream: ServerStream) {
    stream.start({ onMessage() {}, onEnd() {}, onDrain() {}, onClose() {} });
  },
};

/** Calls Process and sends the first `bytes` of a larger message. */
function sendHalf(address: string, bytes: number) {
  const session = connectHttp2(address);
  session.on("error", () => {});
  const call = session.request({
    ":method": "POST",
    ":path": "/dm_env_rpc.v1.Environment/Process",
    "content-type": "application/grpc",
  });
  const message = Buffer.alloc(bytes);
  message.writeUInt32BE(2 * bytes, 1);
  call.on("error", () => {});
  call.write(message);
  const status = new Promise((resolve) => {
    call.on("trailers", (trailers) => resolve(trailers["grpc-status"]));
  });
  call.resume();
  return { status, [Symbol.dispose]: () => session.destroy() };
}

describe("a relay", () => {
  it("connects agents to a program in another process as to any server", async () => {
    await using served = await serving();
    await using program = await startProgram(served.dial, gameToken);
    const agents = await Promise.all([
      join(program.url),
      join(program.url.replace("http", "ws")),
      join(served.relay.url, { metadata: { "dm-env-rpc-program": "game" } }),
    ]);
    for (const { environment } of agents) {
      await environment.reset();
    }
    for (let i = 1; i <= 100; i++) {
      const steps = await Promise.all(
        agents.map(({ environment }, n) => environment.step({ add: n + 1 })),
      );
      expect(steps.map(({ observation }) => observation.total)).toEqual([i, 2 * i, 3 * i]);
    }
    expect(served.relay.programs()).toEqual([
      { name: "game", address: program.url, isConnected: true, streams: 3 },
    ]);
    for (const { environment, connection } of agents) {
      await environment.close();
      await connection.close();
    }
    await expect.poll(() => served.relay.programs()[0]?.streams).toBe(0);
  });

  it("ends the streams of a killed program's agents with UNAVAILABLE", async () => {
    await using served = await serving();
    await using program = await startProgram(served.dial, gameToken);
    const { environment } = await join(program.url);
    await environment.reset();
    await program.kill();
    await expect(environment.step({ add: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining('the program "game" went away'),
    });
    await expect(join(program.url)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining('the program "game" is not connected to this relay now'),
    });
  });

  it("detects a stalled program with pings", async () => {
    await using served = await serving({ limits: { programPingMs: 500 } });
    await using program = await startProgram(served.dial, gameToken);
    // A program that stalls earlier is lost, too, and dials again.
    const environment = await vi.waitFor(async () => {
      const joined = await join(program.url);
      await joined.environment.reset();
      return joined.environment;
    }, 60_000);
    program.process.kill("SIGSTOP");
    await expect(environment.step({ add: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("did not answer a ping within 500 ms"),
    });
  });

  it("refuses a program with an unknown token, and one more program than a token allows", async () => {
    await using served = await serving();
    await expect(dialed(served.dial, "token-of-a-stranger")).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
    });
    await using _program = await dialed(served.dial, gameToken);
    const reported: string[] = [];
    const giveUp = new AbortController();
    const second = dialed(served.dial, gameToken, {
      signal: giveUp.signal,
      onEvent: (event) =>
        reported.push(event.kind === "relay-lost" ? event.error.code : event.kind),
    });
    const refused = expect(second).rejects.toMatchObject({ code: "CANCELLED" });
    await expect.poll(() => reported.length).toBeGreaterThan(1);
    expect(new Set(reported)).toEqual(new Set(["RESOURCE_EXHAUSTED"]));
    giveUp.abort();
    await refused;
    expect(served.events).toContainEqual(
      expect.objectContaining({
        kind: "program-refused",
        error: expect.objectContaining({ code: "UNAUTHENTICATED" }),
      }),
    );
  });

  it("isolates the agents of one program from another program", async () => {
    await using served = await serving();
    await using game = await dialed(served.dial, gameToken);
    await using other = await dialed(served.dial, otherToken);
    expect(game.place.address).not.toBe(other.place.address);
    const { environment } = await join(game.place.address);
    await environment.reset();
    expect([game.server.sessionCount, other.server.sessionCount]).toEqual([1, 0]);
    await other.place.close();
    expect((await environment.step({ add: 2 })).observation.total).toBe(2);
    await environment.connection.close();
  });

  it("numbers the programs of one token, and refuses agents on its own port that name no program or an unknown one", async () => {
    await using served = await serving({
      programs: [{ name: "tab", token: gameToken, maxPrograms: 2 }],
    });
    await using one = await dialed(served.dial, gameToken);
    await using two = await dialed(served.dial, gameToken);
    expect([one.place.program, two.place.program]).toEqual(["tab/1", "tab/2"]);
    await expect(join(served.relay.url)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const metadata = { "dm-env-rpc-program": "tab/3" };
    await expect(join(served.relay.url, { metadata })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });

  it("gives each of several programs of one token its own address again", async () => {
    await using served = await serving({
      programs: [{ name: "tab", token: gameToken, maxPrograms: 2 }],
    });
    const socketOf = async (instance: number) => {
      const socket = new WebSocket(served.dial + relayPath, relaySubprotocol);
      socket.binaryType = "arraybuffer";
      await new Promise((resolve) => {
        socket.onopen = resolve;
      });
      const value = {
        token: gameToken,
        instance: new Uint8Array(16).fill(instance),
        windowBytes: 65_536,
      };
      const welcome = new Promise<string>((resolve) => {
        socket.onmessage = ({ data }) => {
          const { kind } = fromBinary(FrameSchema, new Uint8Array(data));
          resolve(kind.case === "welcome" ? kind.value.program : String(kind.case));
        };
      });
      socket.send(toBinary(FrameSchema, create(FrameSchema, { kind: { case: "hello", value } })));
      return { socket, name: await welcome };
    };
    const first = await socketOf(1);
    const second = await socketOf(2);
    expect([first.name, second.name]).toEqual(["tab/1", "tab/2"]);
    first.socket.close();
    second.socket.close();
    await expect
      .poll(() => served.relay.programs().filter(({ isConnected }) => isConnected))
      .toEqual([]);
    const again = [await socketOf(2), await socketOf(1)];
    expect(again.map(({ name }) => name)).toEqual(["tab/2", "tab/1"]);
    for (const { socket } of again) {
      socket.close();
    }
  });

  it("waits for the agents on its own port before it closes, and accepts no others", async () => {
    const served = await serving();
    await using program = await dialed(served.dial, gameToken);
    const metadata = { "dm-env-rpc-program": "game" };
    const { connection, environment } = await join(served.relay.url, { metadata });
    await environment.reset();
    const closing = served.relay.close({ graceMs: 30_000 });
    await expect(join(served.relay.url, { metadata })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    await environment.step({ add: 1 });
    await connection.close();
    await closing;
    expect(program.server).toBeDefined();
  });

  it("is dialed again by its programs after it has restarted", async () => {
    const lost: string[] = [];
    const first = await serving();
    const { port } = first.relay;
    await using program = await dialed(first.dial, gameToken, {
      onEvent: ({ kind }) => lost.push(kind),
    });
    const { environment } = await join(program.place.address);
    await environment.reset();
    await first.relay.close();
    await expect(environment.step({ add: 1 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await using second = await serving({ port });
    await expect.poll(() => second.relay.programs()).toHaveLength(1);
    await expect.poll(() => lost.at(-1)).toBe("relayed");
    const again = await join(program.place.address);
    await again.environment.reset();
    await again.connection.close();
  });

  it("reuses the port of a disconnected program for the next program with the same token", async () => {
    await using served = await serving();
    const before = await dialed(served.dial, gameToken);
    const { address } = before.place;
    await before[Symbol.asyncDispose]();
    await expect.poll(() => served.relay.programs()[0]?.isConnected).toBe(false);
    await using after = await dialed(served.dial, gameToken);
    expect(after.place.address).toBe(address);
  });

  it("frees the port of a program that does not reconnect in time", async () => {
    await using served = await serving({ limits: { awayMs: 100 } });
    const program = await dialed(served.dial, gameToken);
    await program[Symbol.asyncDispose]();
    await expect.poll(() => served.relay.programs()).toEqual([]);
  });

  it("removes an agent from its world if its connection disappears without an event of node:http2", async () => {
    await using served = await serving({ limits: { pingIntervalMs: 500 } });
    await using program = await dialed(served.dial, gameToken);
    const payload = { case: "joinWorld", value: { worldName: "counting-1" } } as const;
    const join = toBinary(EnvironmentRequestSchema, create(EnvironmentRequestSchema, { payload }));
    const path = "/dm_env_rpc.v1.Environment/Process";
    const ghost = await callGhost(program.place.address, path, join);
    await expect.poll(() => program.server.worlds()[0]?.agents).toBe(1);
    ghost.vanish();
    await ghost.closed;
    await expect.poll(() => program.server.worlds()[0]?.agents).toBe(0);
    expect(served.relay.programs()[0]?.streams).toBe(0);
  });

  it("bounds the bytes that the agents of all ports hold together", async () => {
    await using served = await serving({ limits: { maxBufferedBytes: 300_000 } });
    await using first = await dialOut(silent, { relay: served.dial, token: gameToken });
    await using second = await dialOut(silent, { relay: served.dial, token: otherToken });
    using smaller = sendHalf(first.address, 140_000);
    using larger = sendHalf(second.address, 200_000);
    expect(await Promise.race([smaller.status, larger.status])).toBe("8");
  });

  it("bounds the connections to all ports together", async () => {
    await using served = await serving({ limits: { maxConnectionsPerAddress: 3 } });
    await using game = await dialed(served.dial, gameToken);
    await using other = await dialed(served.dial, otherToken);
    const { environment } = await join(game.place.address);
    await expect(join(other.place.address)).rejects.toMatchObject({
      message: expect.stringContaining("maxConnectionsPerAddress: at most 3"),
    });
    await environment.connection.close();
  });

  it("buffers a bounded number of bytes for an agent that does not read, and delays no other agent", async () => {
    await using served = await serving();
    let sent = 0;
    const flooding = {
      ready: Promise.resolve(),
      accept(stream: ServerStream) {
        const isFlooded = stream.peer.metadata.get("x-flood") === "yes";
        const flood = (): void => {
          do {
            sent += frame.length;
          } while (stream.send(large()));
        };
        stream.start({
          onMessage: () => (isFlooded ? flood() : stream.send(large())),
          onEnd: () => stream.end(),
          onDrain: flood,
          onClose: () => {},
        });
      },
    };
    await using place = await dialOut(flooding, { relay: served.dial, token: gameToken });
    const metadata = { "x-flood": "yes" };
    await using slow = await openStream(place.address, { metadata });
    slow.start({ onMessage: () => slow.pause(), onEnd() {}, onDrain() {}, onClose() {} });
    ask(slow);
    await using quick = await openStream(place.address);
    let answers = 0;
    const answered = new Promise<void>((resolve) => {
      quick.start({
        onMessage: () => {
          answers += 1;
          if (answers === 500) {
            resolve();
          } else {
            ask(quick);
          }
        },
        onEnd() {},
        onDrain() {},
        onClose() {},
      });
    });
    ask(quick);
    await answered;
    // The windows of HTTP/2 are 4 MiB, the windows of the link 256 KiB, and each side buffers as much.
    expect(sent).toBeGreaterThan(1_000_000);
    expect(sent).toBeLessThan(8_000_000);
    expect(answers).toBe(500);
  });

  it("passes on large messages in both directions, and refuses one above its limit after the answers to earlier ones", async () => {
    await using served = await serving({ limits: { maxMessageBytes: 3_000_000 } });
    const echo = {
      ready: Promise.resolve(),
      accept(stream: ServerStream) {
        stream.start({
          onMessage: (message) => {
            if (message.case === "step") {
              const [action] = message.value.actions;
              stream.send({
                case: "step",
                value: {
                  state: EnvironmentStateType.RUNNING,
                  observations: action === undefined ? [] : [action],
                },
              });
            }
          },
          onEnd: () => stream.end(),
          onDrain() {},
          onClose() {},
        });
      },
    };
    await using place = await dialOut(echo, { relay: served.dial, token: gameToken });
    await using agent = await openStream(place.address);
    const received: (number | string)[] = [];
    const closed = new Promise<Error | undefined>((resolve) => {
      agent.start({
        onMessage: (message) => {
          const data = message.case === "step" ? message.value.observations[0]?.tensor.data : [];
          received.push(message.case === "step" ? (data?.length ?? 0) : String(message.case));
        },
        onEnd() {},
        onDrain() {},
        onClose: resolve,
      });
    });
    const sizes = [0, 1, 65_536, 262_144, 1_000_000, 2_900_000];
    for (const size of [...sizes, 3_000_000]) {
      const tensor = { dtype: "uint8", shape: [size], data: new Uint8Array(size) } as const;
      agent.send({
        case: "step",
        value: { actions: [{ uid: 1, tensor }], requestedObservations: [] },
      });
    }
    expect(await closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("limit: maxMessageBytes"),
    });
    expect(received).toEqual([...sizes, "error"]);
  });

  it("ends connections with about a thousand refused streams, on its own port and on those of programs", async () => {
    // While the clock stands still, no refused stream is forgiven.
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await using served = await serving({
      limits: { maxStreamsPerProgram: 1, maxRequestsPerSecond: 0 },
    });
    await using program = await dialed(served.dial, gameToken);
    const { environment } = await join(program.place.address);
    const goawayCode = constants.NGHTTP2_ENHANCE_YOUR_CALM;
    expect(await callUntilEnded(served.relay.url)).toMatchObject({
      goawayCode,
      statuses: new Set([`${Code.InvalidArgument}`]),
    });
    expect(await callUntilEnded(program.place.address)).toMatchObject({
      goawayCode,
      statuses: new Set([`${Code.ResourceExhausted}`]),
    });
    await environment.connection.close();
  });

  it("limits the streams of one program and the programs of all tokens", async () => {
    await using served = await serving({ limits: { maxPrograms: 1, maxStreamsPerProgram: 1 } });
    await using program = await dialed(served.dial, gameToken);
    const { environment } = await join(program.place.address);
    await expect(join(program.place.address)).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("maxStreamsPerProgram"),
    });
    await environment.connection.close();
    const refused = new Promise<Error>((resolve) => {
      const giveUp = new AbortController();
      dialed(served.dial, otherToken, {
        signal: giveUp.signal,
        onEvent: (event) => {
          if (event.kind === "relay-lost") {
            giveUp.abort();
            resolve(event.error);
          }
        },
      }).catch(() => {});
    });
    expect(await refused).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("maxPrograms"),
    });
  });

  it.each([
    [{ programs: [{ name: "a b", token: gameToken }] }, /name of a program/],
    [{ programs: [{ name: "a", token: "short" }] }, /at least 16 characters/],
    [{ programPorts: { first: 9, last: 8 } }, /ports of programs/],
    [{ host: "0.0.0.0" }, /loopback/],
    [{ host: "0.0.0.0", allowInsecure: true }, /publicHost/],
    [{ limits: { maxPrograms: 0 } }, /maxPrograms/],
  ])("refuses the options %j", async (options, message) => {
    await expect(serveRelay({ programs: [], ...options })).rejects.toThrow(message);
  });
});
