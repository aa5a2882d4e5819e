// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { preface } from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { manualTime } from "../../internal/time/manual-time.ts";
import { BufferedBytes } from "../../limits/buffered-bytes.ts";
import { listenLimits } from "../../limits/listen-limits.ts";
import { sniff } from "../http2-server.ts";
import { ConnectionGate, type GateOptions } from "./connection-gate.ts";

const flooder = "127.0.0.1:4711";
const network = "127.0.0.1";

/** A gate behind a server; `started` has the names of the connections that have started. */
interface Gated extends AsyncDisposable {
  readonly gate: ConnectionGate;
  readonly refusals: RefusalCounts;
  readonly time: ReturnType<typeof manualTime>;
  readonly started: string[];
  /** Number of HTTP/2 connections that may start at a time; 0 as if the network were not read. */
  readonly reading: { startsAtATime: number };
  /** Opens a connection, and resolves with its two ends once the gate has received it. */
  open(
    name: string,
    speaks?: "HTTP/2",
  ): Promise<{ readonly client: Socket; readonly accepted: Socket }>;
}

async function gated(options: Partial<GateOptions> = {}): Promise<Gated> {
  const time = manualTime();
  const refusals = new RefusalCounts();
  const buffered = new BufferedBytes(listenLimits({}));
  const reading = { startsAtATime: 1 };
  const gate = new ConnectionGate({
    turns: { startsAtATime: () => reading.startsAtATime },
    maxFloodsPerAddress: 2,
    maxConnectionsPerAddress: 100,
    buffered,
    refusals,
    time,
    ...options,
  });
  const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const started: string[] = [];
  const sockets: Socket[] = [];
  return {
    gate,
    refusals,
    reading,
    time,
    started,
    async open(name, speaks) {
      const client = connect(port, "127.0.0.1").on("error", () => {});
      const [accepted] = (await once(server, "connection")) as [Socket];
      sockets.push(client, accepted);
      if (speaks === "HTTP/2") {
        gate.admitHttp2(accepted, () => started.push(name));
      } else {
        gate.admit(accepted, () => started.push(name));
      }
      return { client, accepted };
    },
    async [Symbol.asyncDispose]() {
      gate.close();
      buffered.stop();
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
      await once(server, "close");
    },
  };
}

function flood(gate: ConnectionGate, times: number, address: string = flooder): void {
  for (let i = 0; i < times; i++) {
    gate.countFlood(address);
  }
}

test("after too many floods, one connection of the address starts per second, the newest first", async () => {
  await using served = await gated();
  const { gate, time, started, refusals } = served;
  flood(gate, 2);
  await served.open("allowed");
  await until(() => started.length === 1);
  flood(gate, 1);
  await served.open("first");
  await served.open("second");
  await served.open("third");
  expect(started).toEqual(["allowed"]);
  expect(refusals.byLimit.get("maxFloodsPerAddress")).toBe(3);
  time.advance(999);
  expect(started).toEqual(["allowed"]);
  time.advance(1);
  expect(started).toEqual(["allowed", "third"]);
  time.advance(1_000);
  expect(started).toEqual(["allowed", "third", "second"]);
});

test("HTTP/2 connections wait while their network is not read, and then start a few in each turn, the oldest first", async () => {
  await using served = await gated();
  const { gate, reading, started } = served;
  await served.open("before", "HTTP/2");
  reading.startsAtATime = 0;
  for (let i = 0; i < 5; i++) {
    await served.open(`${i}`, "HTTP/2");
  }
  await served.open("not known to be HTTP/2");
  expect(started).toEqual(["before", "not known to be HTTP/2"]);
  started.splice(0);
  reading.startsAtATime = 2;
  gate.startWaiting(network);
  gate.startWaiting(network);
  expect(started).toEqual(["0", "1"]);
  await served.open("behind", "HTTP/2");
  await until(() => started.length === 6);
  expect(started).toEqual(["0", "1", "2", "3", "4", "behind"]);
  await served.open("after", "HTTP/2");
  expect(started.at(-1)).toBe("after");
  expect(served.refusals.byLimit.size).toBe(0);
});

test("once a network is no longer read, no further connections start", async () => {
  await using served = await gated();
  const { gate, reading, started } = served;
  reading.startsAtATime = 0;
  for (let i = 0; i < 3; i++) {
    await served.open(`${i}`, "HTTP/2");
  }
  reading.startsAtATime = 1;
  gate.startWaiting(network);
  reading.startsAtATime = 0;
  await turns(10);
  expect(started).toEqual(["0"]);
  reading.startsAtATime = 1;
  gate.startWaiting(network);
  await until(() => started.length === 3);
});

test("once a network has flooded, its HTTP/2 connections start one per second, even those admitted earlier", async () => {
  await using served = await gated();
  const { gate, reading, started, time } = served;
  reading.startsAtATime = 0;
  await served.open("first", "HTTP/2");
  await served.open("second", "HTTP/2");
  flood(gate, 3);
  reading.startsAtATime = 1;
  gate.startWaiting(network);
  await turns(10);
  await served.open("admitted earlier", "HTTP/2");
  expect(started).toEqual([]);
  time.advance(1_000);
  expect(started).toEqual(["admitted earlier"]);
  time.advance(1_000);
  expect(started).toEqual(["admitted earlier", "second"]);
});

test("a connection that has waited because of floods does not wait again once it is known to speak HTTP/2", async () => {
  await using served = await gated();
  const { gate, reading, started, time } = served;
  flood(gate, 3);
  const { accepted } = await served.open("paced");
  await served.open("newer");
  time.advance(2_000);
  expect(started).toEqual(["newer", "paced"]);
  await served.open("newest");
  gate.admitHttp2(accepted, () => started.push("paced speaks HTTP/2"));
  expect(started).toEqual(["newer", "paced", "paced speaks HTTP/2"]);
  reading.startsAtATime = 0;
  gate.admitHttp2(accepted, () => started.push("paced is read"));
  time.advance(1_000);
  expect(started).toHaveLength(3);
  reading.startsAtATime = 1;
  gate.startWaiting(network);
  gate.startWaiting(network);
  expect(started.slice(3)).toEqual(["paced is read"]);
  time.advance(1_000);
  expect(started.slice(3)).toEqual(["paced is read", "newest"]);
});

test("once a network is calm, its HTTP/2 connections start a few in each turn", async () => {
  await using served = await gated();
  const { gate, reading, started, time } = served;
  reading.startsAtATime = 0;
  for (let i = 0; i < 6; i++) {
    await served.open(`${i}`, "HTTP/2");
  }
  flood(gate, 3);
  time.advance(3_999);
  expect(started).toEqual([]);
  reading.startsAtATime = 2;
  time.advance(1);
  expect(started).toEqual(["0", "1"]);
  await until(() => started.length === 6);
  expect(started).toEqual(["0", "1", "2", "3", "4", "5"]);
  time.advance(1_000);
  expect(time.timers).toBe(0);
});

test("if too many connections wait for their network to be read, the newest is closed", async () => {
  await using served = await gated({ maxConnectionsPerAddress: 2 });
  served.reading.startsAtATime = 0;
  const opened = [];
  for (const name of ["1", "2", "3"]) {
    opened.push(await served.open(name, "HTTP/2"));
  }
  expect(opened.map(({ accepted }) => accepted.destroyed)).toEqual([false, false, true]);
  expect(served.refusals.byLimit.get("maxConnectionsPerAddress")).toBe(1);
});

test("a connection that waits for its network is closed after ten seconds, and the network is then forgotten", async () => {
  await using served = await gated();
  const { reading, started, time } = served;
  reading.startsAtATime = 0;
  const { accepted } = await served.open("patient", "HTTP/2");
  time.advance(9_999);
  expect(accepted.destroyed).toBe(false);
  time.advance(1);
  expect(accepted.destroyed).toBe(true);
  await once(accepted, "close");
  time.advance(1_000);
  expect(time.timers).toBe(0);
  expect(started).toEqual([]);
});

test("a connection that is destroyed before it has to wait takes no place among those that wait", async () => {
  await using served = await gated({ maxConnectionsPerAddress: 1 });
  const { gate, started, time } = served;
  const { accepted: gone } = await served.open("gone");
  gone.destroy();
  await once(gone, "close");
  flood(gate, 3);
  const { accepted } = await served.open("alive");
  gate.admit(gone, () => started.push("gone again"));
  expect(accepted.destroyed).toBe(false);
  time.advance(1_000);
  expect(started).toEqual(["gone", "alive"]);
});

test("connections of other addresses do not wait", async () => {
  await using served = await gated();
  flood(served.gate, 10, "192.0.2.7:4711");
  await served.open("other");
  await until(() => served.started.length === 1);
});

test("after four seconds without a flood, all connections start and the floods are forgotten", async () => {
  await using served = await gated();
  const { gate, time, started } = served;
  flood(gate, 3);
  for (let i = 0; i < 10; i++) {
    await served.open(`${i}`);
  }
  time.advance(3_999);
  expect(started).toEqual(["9", "8", "7"]);
  time.advance(1);
  await until(() => started.length === 10); // A few in each turn.
  expect(time.timers).toBe(0);
  flood(gate, 2);
  await served.open("later");
  await until(() => started.includes("later"));
});

test("another flood makes the connections of its address wait longer", async () => {
  await using served = await gated();
  const { gate, time, started } = served;
  flood(gate, 3);
  for (let i = 0; i < 10; i++) {
    await served.open(`${i}`);
    time.advance(1_000);
    flood(gate, 1);
  }
  expect(started).toHaveLength(10);
  await served.open("last");
  expect(started).not.toContain("last");
});

test("of the connections that wait, only the given ones are dropped", async () => {
  await using served = await gated();
  const { gate, time, started } = served;
  flood(gate, 3);
  const kept = await served.open("kept");
  const dropped = await served.open("dropped");
  gate.drop(new Set([dropped.accepted]));
  expect([kept.accepted.destroyed, dropped.accepted.destroyed]).toEqual([false, true]);
  await once(dropped.accepted, "close");
  time.advance(1_000);
  expect(started).toEqual(["kept"]);
});

test("a connection that has waited for ten seconds is closed", async () => {
  await using served = await gated();
  const { gate, time, started } = served;
  flood(gate, 3);
  const { accepted } = await served.open("old");
  for (let second = 0; second < 10; second++) {
    await served.open(`${second}`);
    flood(gate, 1);
    time.advance(1_000);
  }
  expect(accepted.destroyed).toBe(true);
  expect(started).toEqual(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
});

test("at most maxConnectionsPerAddress connections wait, and older connections are closed", async () => {
  await using served = await gated({ maxConnectionsPerAddress: 2 });
  flood(served.gate, 3);
  const opened = [await served.open("1"), await served.open("2"), await served.open("3")];
  expect(opened.map(({ accepted }) => accepted.destroyed)).toEqual([true, false, false]);
});

test("a connection no longer waits once its client has closed it", async () => {
  await using served = await gated();
  flood(served.gate, 3);
  const { client, accepted } = await served.open("closed");
  client.write("hello");
  await until(() => accepted.bytesRead === 5);
  client.end();
  await once(accepted, "close");
  served.time.advance(1_000);
  expect(served.started).toEqual([]);
});

test("a connection does not wait if its client has closed it before its protocol is known", async () => {
  await using served = await gated();
  const { gate, reading, started, time } = served;
  flood(gate, 3);
  const { client, accepted } = await served.open("in floods");
  client.write(preface);
  await until(() => accepted.bytesRead === preface.length);
  time.advance(1_000);
  expect(started).toEqual(["in floods"]);
  client.end();
  await once(client, "finish");
  await turns(10); // Until the end has arrived.
  const closed = once(accepted, "close");
  reading.startsAtATime = 0;
  const onHttp2 = (): void => gate.admitHttp2(accepted, () => started.push("HTTP/2"));
  sniff(accepted, onHttp2, () => started.push("HTTP/1.1"), 0);
  await closed;
  expect(started).toEqual(["in floods"]);
});

test("a connection that waits loses no bytes, and little of it is read ahead", async () => {
  await using served = await gated();
  flood(served.gate, 3);
  const { client, accepted } = await served.open("eager");
  const sent = randomBytes(8 * 1024 * 1024);
  client.write(sent);
  await until(() => accepted.bytesRead > 0);
  served.time.advance(1_000);
  expect(accepted.bytesRead).toBeLessThan(256 * 1024);
  expect(served.started).toEqual(["eager"]);
  const chunks: Buffer[] = [];
  accepted.on("data", (chunk: Buffer) => chunks.push(chunk));
  await until(() => accepted.bytesRead === sent.length);
  expect(Buffer.concat(chunks).equals(sent)).toBe(true);
});

test("a flood limit of 0 lets every connection start", async () => {
  await using served = await gated({ maxFloodsPerAddress: 0 });
  flood(served.gate, 100);
  await served.open("1");
  await until(() => served.started.length === 1);
});

test("at most 32 connections start in one turn of the event loop", async () => {
  await using served = await gated({ maxFloodsPerAddress: 0 });
  const sockets: Socket[] = [];
  for (let i = 0; i < 80; i++) {
    sockets.push((await served.open("warm-up")).accepted);
  }
  await until(() => served.started.length === 80);
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    setImmediate(turn);
  };
  const begun: number[] = [];
  for (const socket of sockets) {
    served.gate.admit(socket, () => begun.push(turns));
  }
  turn();
  await until(() => begun.length === 80);
  const most = Math.max(...begun.map((at) => begun.filter((other) => other === at).length));
  expect(most).toBeLessThanOrEqual(32);
});

test("closing a gate closes the connections that wait, and the connections that arrive later", async () => {
  await using served = await gated();
  flood(served.gate, 3);
  const { accepted } = await served.open("waits");
  served.gate.close();
  const { accepted: late } = await served.open("late");
  expect([accepted.destroyed, late.destroyed]).toEqual([true, true]);
  expect(served.started).toEqual([]);
  expect(served.time.timers).toBe(0);
});

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
