// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { anyPack, EmptySchema } from "@bufbuild/protobuf/wkt";
import { LeaveWorldRequestSchema } from "@dm-env-rpc/protocol";
import {
  createRequestCodec,
  createResponseCodec,
  type ProcessRequest,
} from "@dm-env-rpc/tensor-codec/wire";
import { type CallCodecs, memoryStreamPair } from "@dm-env-rpc/transport";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import {
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
} from "../host/environment-server.ts";

function start(options: TallyOptions = {}, server: Partial<EnvironmentServerOptions> = {}) {
  return createEnvironmentServer({ worlds: [tally(options)], ...server });
}

/** A peer, and the numbers of its messages that the server has read and answered. */
function countingPeer(server: EnvironmentServer) {
  const [client, stream] = memoryStreamPair();
  let taken = 0;
  let answered = 0;
  const send = stream.send.bind(stream);
  stream.send = (response) => {
    answered += 1;
    return send(response);
  };
  const begin = stream.start.bind(stream);
  stream.start = (receiver) =>
    begin({
      onMessage(message, bytes) {
        taken += 1;
        receiver.onMessage(message, bytes);
      },
      get takesUnread() {
        return receiver.takesUnread;
      },
      onUnread(message) {
        taken += 1;
        receiver.onUnread?.(message);
      },
      onEnd: () => receiver.onEnd(),
      onDrain: () => receiver.onDrain(),
      onClose: (error) => receiver.onClose(error),
    });
  server.accept(stream);
  return { peer: new Peer(client), taken: () => taken, answered: () => answered };
}

/** Codecs that count the requests that the server decodes. */
function countingCodecs(): { codecs: CallCodecs; decoded: () => number } {
  const codec = createRequestCodec();
  let decoded = 0;
  return {
    decoded: () => decoded,
    codecs: {
      request: {
        ...codec,
        read(source, from, to) {
          decoded += 1;
          return codec.read(source, from, to);
        },
      },
      response: createResponseCodec(),
    },
  };
}

describe("a burst of one address", () => {
  it("delays another address by a few turns of the event loop", async () => {
    await using server = start({}, { limits: { maxRequestsPerSecond: 0 } });
    const streams = 64;
    const requests = 256;
    let answered = 0;
    const bursts: Promise<void>[] = [];
    for (let i = 0; i < streams; i++) {
      const [client, stream] = memoryStreamPair({ address: `192.0.2.1:${i}` });
      server.accept(stream);
      const peer = new Peer(client);
      for (let j = 0; j < requests; j++) {
        bursts.push(
          peer.resetWorld("unknown").catch(() => {
            answered += 1;
          }),
        );
      }
    }
    const [client, stream] = memoryStreamPair({ address: "192.0.2.2:1" });
    server.accept(stream);
    await new Peer(client).resetWorld("unknown").catch(() => {});
    expect(answered).toBeLessThan((streams * requests) / 2);
    await Promise.all(bursts);
    expect(answered).toBe(streams * requests);
  });
});

/** Codecs of a stream that sends `bytes` instead of `request`. */
function codecsWith(request: ProcessRequest, bytes: Uint8Array): CallCodecs {
  const codec = createRequestCodec();
  return {
    request: {
      size: (message) => (message === request ? bytes.length : codec.size(message)),
      write(message, target, offset) {
        if (message !== request) {
          return codec.write(message, target, offset);
        }
        target.set(bytes, offset);
        return offset + bytes.length;
      },
      read: (source, from, to) => codec.read(source, from, to),
    },
    response: createResponseCodec(),
  };
}

describe("a session", () => {
  it("behaviour 1: serves many streams at once, each for one agent", async () => {
    await using server = start();
    const host = connectPeer(server);
    const world = await host.createWorld({ max_agents: 100 });
    const peers = await joinedPeers(server, world, 50);
    expect(server.sessionCount).toBe(51);
    const steps = await Promise.all(peers.map((peer) => peer.step()));
    expect(steps.map(({ state }) => state)).toEqual(Array(50).fill("RUNNING"));
  });

  it("behaviour 2 and 3: answers requests in flight one by one, in order, each with its kind or an error", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    const requests: ProcessRequest[] = [
      { case: "step", value: { actions: [], requestedObservations: [] } },
      { case: "leaveWorld", value: create(LeaveWorldRequestSchema) },
    ];
    const answers = await Promise.all([
      ...requests.map((request) => peer.send(request)),
      peer.join(world).then(() => ({ case: "joined" })),
      ...requests.map((request) => peer.send(request)),
      peer.send(requests[0] as ProcessRequest),
    ]);
    expect(answers.map((answer) => answer.case)).toEqual([
      "error",
      "leaveWorld",
      "joined",
      "step",
      "leaveWorld",
      "error",
    ]);
    expect(peer.received).toBe(7);
  });

  it("behaviour 3: decodes a request in its turn, which waits as bytes until then", async () => {
    await using server = start();
    const { codecs, decoded } = countingCodecs();
    const [client, stream] = memoryStreamPair({ codecs });
    server.accept(stream);
    const peer = new Peer(client);
    const other = connectPeer(server);
    const world = await peer.createWorld({ length: 1_000_000 });
    await peer.join(world);
    await other.join(world);
    const before = decoded();
    const step = peer.step();
    const creates = Array.from({ length: 10 }, () => peer.createWorld({ length: 1_000 }));
    expect(await isBlocked(step)).toBe(true);
    expect(decoded() - before).toBe(1);
    await other.step();
    await step;
    expect(new Set(await Promise.all(creates)).size).toBe(10);
    expect(decoded() - before).toBe(1 + 10);
  });

  it("behaviour 3: stops reading at its limit of requests and loses none", async () => {
    await using server = start({}, { limits: { maxQueuedRequests: 4 } });
    const { peer: slow, taken } = countingPeer(server);
    const other = connectPeer(server);
    const world = await slow.createWorld({ length: 1_000_000 });
    await slow.join(world);
    await other.join(world);
    const before = taken();
    const steps = Array.from({ length: 100 }, (_, i) => slow.step({ add: i }, ["total"]));
    expect(await isBlocked(steps[0] as Promise<unknown>)).toBe(true);
    // The step that waits for the other agent, and four in the queue.
    expect(taken() - before).toBe(1 + 4);
    const others = Array.from({ length: 100 }, () => other.step({}, []));
    await Promise.all(others);
    const totals = (await Promise.all(steps)).map(({ observations }) => observations["total"]);
    expect(totals).toEqual(Array.from({ length: 100 }, (_, i) => (i * (i + 1)) / 2));
  });

  it("behaviour 3: reads one request ahead of a peer that does not read, and loses none", async () => {
    await using server = start({}, { limits: { maxRequestsPerSecond: 0 } });
    const { peer, taken, answered } = countingPeer(server);
    peer.stream.pause();
    const requests = Array.from({ length: 5_000 }, () =>
      peer.resetWorld("unknown").catch(() => "refused"),
    );
    let before: number;
    do {
      before = taken();
      await quiet();
      // On a busy machine, the server may take nothing for a while, although it has answered all it took.
    } while (taken() > before || taken() === answered());
    expect(taken()).toBeLessThan(requests.length);
    expect(taken() - answered()).toBe(1);
    peer.stream.resume();
    expect(new Set(await Promise.all(requests))).toEqual(new Set(["refused"]));
  });

  it("behaviour 3: stops reading at its limit of bytes and loses no request", async () => {
    await using server = start({}, { limits: { maxQueuedBytes: 10_000 } });
    const { peer: slow, taken } = countingPeer(server);
    const other = connectPeer(server);
    const world = await slow.createWorld({ length: 1_000_000 });
    await slow.join(world);
    await other.join(world);
    const before = taken();
    const step = slow.step();
    const large = Promise.allSettled(
      Array.from({ length: 20 }, () => slow.createWorld({ ["x".repeat(4_000)]: 1 })),
    );
    expect(await isBlocked(step)).toBe(true);
    expect(taken() - before).toBe(1 + 3);
    await other.step();
    await step;
    expect((await large).map(({ status }) => status)).toEqual(new Array(20).fill("rejected"));
  });

  it("behaviour 4: refuses a step and a reset while not joined", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const step = await peer.send({
      case: "step",
      value: { actions: [], requestedObservations: [] },
    });
    expect(step.case === "error" && step.value.message).toMatch(/not joined one.*JoinWorldRequest/);
    await expect(peer.reset()).rejects.toThrow(/^9: .*not joined one/);
  });

  it("behaviour 5: never sends TERMINATED or INTERRUPTED twice without RUNNING between", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld({ length: 2 }));
    const states = [];
    for (let i = 0; i < 8; i++) {
      states.push((await peer.step()).state);
    }
    expect(states).toEqual([
      "RUNNING",
      "RUNNING",
      "TERMINATED",
      "RUNNING",
      "RUNNING",
      "TERMINATED",
      "RUNNING",
      "RUNNING",
    ]);
  });

  it("behaviour 6: an error changes nothing and the stream continues", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await peer.step();
    await peer.step({ add: 5 });
    await expect(peer.step({ add: 1001 })).rejects.toThrow(/add/);
    await expect(peer.step({}, ["nonsense"])).rejects.toThrow(/999/);
    const { observations } = await peer.step({ add: 1 });
    expect(observations).toMatchObject({ total: 6, tick: 2 });
  });

  it("behaviour 8: answers all requests after a half-close, then the agent leaves, then the stream ends", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const [peer, other] = [connectPeer(server), connectPeer(server)];
    const world = await peer.createWorld();
    await peer.join(world);
    await other.join(world);
    const [first, second] = [peer.step(), peer.step({ add: 1 })];
    peer.stream.end();
    expect(await isBlocked(first)).toBe(true);
    await other.step();
    expect((await first).state).toBe("RUNNING");
    await other.step();
    expect((await second).observations["total"]).toBe(1);
    expect(await peer.closed).toBeUndefined();
    expect(log.at(-1)).toBe("leave 1");
  });

  it("behaviour 8: an abort drops the queue, and other agents stop waiting at once", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [dying, other] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([dying.step(), other.step()]);
    const waiting = other.step({ add: 1 });
    expect(await isBlocked(waiting)).toBe(true);
    dying.drop();
    expect((await waiting).observations["total"]).toBe(1);
    expect(log).toContain("leave 1");
    expect(server.sessionCount).toBe(2);
  });

  it("behaviour 9: answers requests without a payload, unknown extensions and malformed bytes with errors", async () => {
    await using server = start();
    const garbage: ProcessRequest = { case: "leaveWorld", value: create(LeaveWorldRequestSchema) };
    // Field 1 with a message of five bytes, of which only one is sent.
    const codecs = codecsWith(garbage, Uint8Array.of(0x0a, 5, 1));
    const [client, stream] = memoryStreamPair({ codecs });
    server.accept(stream);
    const peer = new Peer(client);
    const malformed = await peer.send(garbage);
    expect(malformed.case === "error" && malformed.value).toMatchObject({ code: 3 });
    const empty = await peer.send({ case: undefined, value: undefined });
    expect(empty.case === "error" && empty.value).toMatchObject({ code: 3 });
    const extension = await peer.send({
      case: "extension",
      value: anyPack(EmptySchema, create(EmptySchema)),
    });
    expect(extension.case).toBe("error");
    expect(await peer.createWorld()).toBe("tally-1");
  });
});
