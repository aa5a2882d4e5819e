// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type ClientHttp2Session, connect, createServer } from "node:http2";
import { expect, test } from "vitest";
import { LoopTurns, ThreadShare } from "../../internal/turns/thread-share.ts";
import { readingOf } from "./socket-reading.ts";
import { StreamTurns } from "./stream-turns.ts";

const waitingStream = () => ({
  destroyed: false,
  closed: false,
  destroy: () => {},
  push: () => true,
  read: () => null,
});

/** Turns whose event loop the test drives, and connections that record whether they are read. */
function driven() {
  const tasks: (() => void)[] = [];
  const clock = { nowMs: 0 };
  const reads: string[] = [];
  const started: number[] = [];
  /** Networks that are read again. */
  const readAgain: string[] = [];
  const turns = new StreamTurns(
    (network) => readAgain.push(network),
    new ThreadShare(
      new LoopTurns(
        () => 0,
        (task) => tasks.push(task),
      ),
      2,
    ),
    () => clock.nowMs,
  );
  return {
    clock,
    reads,
    started,
    turns,
    readAgain,
    turn: () => tasks.splice(0).map((task) => task()),
    connection: (network: string, name: string) => {
      const { start, ...rest } = turns.add(
        { network, connection: name },
        {
          start: () => reads.push(`read ${name}`),
          stop: () => reads.push(`stop ${name}`),
        },
      );
      const open = (id: number, stream = waitingStream()) => start(stream, () => started.push(id));
      return { ...rest, open };
    },
  };
}

test("a few streams start at once, and the others in later turns and in order", () => {
  const { connection, started, turn } = driven();
  const { open } = connection("a", "a");
  for (let id = 1; id <= 5; id++) {
    open(id);
  }
  expect(started).toEqual([1, 2]);
  turn();
  open(6);
  expect(started).toEqual([1, 2, 3, 4]);
  turn();
  expect(started).toEqual([1, 2, 3, 4, 5, 6]);
  turn();
  turn();
  open(7);
  expect(started).toEqual([1, 2, 3, 4, 5, 6, 7]);
});

test("a stream waits for at most one stream of each other connection of its network", () => {
  const { connection, started, turn } = driven();
  const flooding = connection("a", "flooding");
  const quiet = connection("a", "quiet");
  for (let id = 1; id <= 100; id++) {
    flooding.open(id);
  }
  quiet.open(101);
  turn();
  expect(started).toEqual([1, 2, 3, 101]);
});

test("a stream that is reset while it waits never starts, and takes no turn of another", () => {
  const { connection, started, turn } = driven();
  const { open } = connection("a", "a");
  const reset = waitingStream();
  open(1);
  open(2);
  open(3, reset);
  open(4);
  open(5);
  reset.closed = true;
  turn();
  expect(started).toEqual([1, 2, 4, 5]);
});

test("while many streams of a network wait, its connections are not read, but those of other networks are", () => {
  const { connection, reads, started, turn } = driven();
  const flooding = connection("a", "flooding");
  const quiet = connection("a", "quiet");
  connection("b", "other");
  for (let id = 0; id < 130; id++) {
    flooding.open(id);
  }
  expect(reads).toEqual([]);
  flooding.open(130);
  expect(reads).toEqual(["stop quiet", "stop flooding"]);
  connection("a", "late");
  quiet.open(131); // node:http2 has started to read it again.
  expect(reads.splice(0)).toEqual(["stop quiet", "stop flooding", "stop late", "stop quiet"]);
  while (started.length < 132) {
    expect(reads).toEqual([]);
    turn();
  }
  expect(reads).toEqual(["read quiet", "read flooding", "read late"]);
});

test("no connection of a network may start while it is not read, and more at a time if more are open", () => {
  const { connection, readAgain, started, turn, turns } = driven();
  const startsAtATime = () => ["a", "b"].map((network) => turns.startsAtATime(network));
  const flooding = connection("a", "flooding");
  expect(startsAtATime()).toEqual([1, 1]);
  for (let id = 0; id < 259; id++) {
    flooding.open(id);
  }
  const others = Array.from({ length: 64 }, (_, i) => connection("a", `other ${i}`));
  expect(startsAtATime()).toEqual([0, 1]);
  for (let i = 0; i < 200 && started.length < 259; i++) {
    expect(readAgain).toEqual([]);
    turn();
  }
  expect(readAgain).toEqual(["a"]);
  expect(startsAtATime()).toEqual([3, 1]);
  for (const { close } of [flooding, ...others]) {
    close();
  }
  expect(startsAtATime()).toEqual([1, 1]);
});

test("the time during which the connections of a network are not read is summed up", () => {
  const { clock, connection, started, turn } = driven();
  const flooding = connection("a", "flooding");
  const quiet = connection("a", "quiet");
  const other = connection("b", "other");
  const playFor = (ms: number) => {
    clock.nowMs += ms;
    return [flooding, quiet, other].map(({ stoppedMs }) => stoppedMs());
  };
  let opened = 0;
  const flood = () => {
    for (let id = 0; id < 259; id++) {
      flooding.open(id);
    }
    opened += 259;
  };
  const startAll = () => {
    while (started.length < opened) {
      turn();
    }
  };
  expect(playFor(5)).toEqual([0, 0, 0]);
  flood();
  expect(playFor(7)).toEqual([7, 7, 0]);
  expect(connection("a", "late").stoppedMs()).toBe(7);
  startAll();
  expect(playFor(100)).toEqual([7, 7, 0]);
  turn();
  turn();
  flood();
  expect(playFor(2)).toEqual([9, 9, 0]);
});

test("a session of node:http2 whose reading has stopped receives nothing until it starts", async () => {
  const server = createServer();
  let streams = 0;
  server.on("stream", (stream) => {
    streams += 1;
    stream.on("error", () => {});
    stream.respond({}, { endStream: true });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const accepted = once(server, "session");
  const client: ClientHttp2Session = connect(`http://127.0.0.1:${port}`);
  try {
    const [session] = await accepted;
    await once(client, "remoteSettings");
    await new Promise((resolve) => client.ping(resolve));
    const reading = readingOf(session.socket);
    reading.stop();
    const first = client.request({ ":path": "/" }).resume();
    const closed = once(first, "close");
    for (let turn = 0; turn < 100; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(streams).toBe(0);
    reading.start();
    await closed;
    expect(streams).toBe(1);
  } finally {
    client.destroy();
    server.close();
  }
});
