// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect, createServer, type ServerHttp2Stream } from "node:http2";
import { emptySettings, preface } from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { NetworkCounts } from "../../internal/counts/network-counts.ts";
import { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { turnKeyOf } from "../../internal/turns/network-turns.ts";
import { LoopTurns, ThreadShare } from "../../internal/turns/thread-share.ts";
import { rawPeer } from "../../testing/raw-peer.ts";
import { ConnectionWindows } from "./connection-windows.ts";
import { type ConnectionLimits, ServerConnections } from "./server-connections.ts";
import { StreamTurns } from "./stream-turns.ts";

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function limits(): ConnectionLimits {
  return {
    maxConnections: 10,
    maxConnectionsPerAddress: 10,
    maxStreamsPerConnection: 10,
    floods: undefined,
    byNetwork: new NetworkCounts(),
    windows: new ConnectionWindows(),
    turns: new StreamTurns(),
    refusals: new RefusalCounts(),
    pingIntervalMs: 0,
    idleConnectionMs: 0,
    onFlood: () => {},
    floodingSinceMs: () => undefined,
    onError: () => {},
  };
}

test("a connection that is not read has time to answer its ping once it is read again", async () => {
  const tasks: (() => void)[] = [];
  let looks = 0;
  const turns = new StreamTurns(
    undefined,
    new ThreadShare(
      new LoopTurns(
        () => 0,
        (task) => tasks.push(task),
      ),
      2,
    ),
    () => {
      looks += 1;
      return performance.now();
    },
  );
  const errors: Error[] = [];
  const connections = new ServerConnections({
    ...limits(),
    turns,
    pingIntervalMs: 1_000,
    onError: (error) => errors.push(error),
  });
  const server = createServer();
  let accepted = 0;
  server.on("session", (session) => {
    connections.add(session);
    accepted += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const client = connect(`http://127.0.0.1:${port}`);
  try {
    await once(client, "remoteSettings");
    const waiting = {
      destroyed: false,
      closed: false,
      destroy: () => {},
      push: () => true,
      read: () => null,
    };
    const key = turnKeyOf("127.0.0.1:1");
    const flooding = turns.add(key, { start: () => {}, stop: () => {} });
    for (let id = 0; id < 300; id++) {
      flooding.start(waiting, () => {});
    }
    await using silent = rawPeer(port);
    silent.write(preface, emptySettings);
    await until(() => accepted === 2);
    looks = 0;
    await until(() => looks >= 3 || errors.length > 0);
    expect(errors).toEqual([]);

    let pings = 0;
    client.on("ping", () => {
      pings += 1;
    });
    while (tasks.length > 0) {
      for (const task of tasks.splice(0)) {
        task();
      }
    }
    await until(() => pings >= 2 && errors.length > 0);
    expect(errors.map(String)).toEqual([
      expect.stringContaining("did not answer a ping within 1000 ms"),
    ]);
    expect(client.closed).toBe(false);
  } finally {
    connections.destroy();
    connections.stop();
    client.destroy();
    server.close();
  }
});

test("a closed stream has no listeners left that keep its session alive", async () => {
  const connections = new ServerConnections(limits());
  const server = createServer();
  server.on("session", (session) => connections.add(session));
  const closed = new Promise<ServerHttp2Stream>((resolve) => {
    server.on("stream", (stream) => {
      const connection = stream.session && connections.get(stream.session);
      connection?.streamOpened(stream);
      stream.on("error", () => {});
      stream.on("close", () => resolve(stream));
      stream.respond({ ":status": 200 });
      stream.resume().end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const client = connect(`http://127.0.0.1:${port}`);
  client.request({ ":path": "/" }).resume();
  expect((await closed).eventNames()).toEqual([]);
  client.destroy();
  connections.destroy();
  connections.stop();
  server.close();
});
