// SPDX-License-Identifier: Apache-2.0
import { connect as connectHttp2 } from "node:http2";
import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { networkPeer, serving, until } from "../../testing/network.ts";
import { tally } from "../../testing/tally.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { realtime } from "../clocks/realtime.ts";
import { defineWorld } from "../definition/world.ts";
import type { Server } from "../host/serve.ts";
import { addServerMetrics, serveMetrics } from "./index.ts";

const broken = defineWorld({
  name: "broken",
  actions: {},
  observations: {},
  create: () => ({
    step() {
      throw new Error("unlucky");
    },
    observe: {},
  }),
});

const clockwork = defineWorld({
  name: "clockwork",
  actions: {},
  observations: { tick: t.int32() },
  clock: realtime({ ticksPerSecond: 1_000 }),
  create() {
    let tick = 0;
    return {
      step: () => {
        tick += 1;
      },
      observe: { tick: () => tick },
    };
  },
});

/** Exposes the metrics of a server, and returns a function that scrapes them by name and labels. */
async function exposed(server: Server) {
  const registry = new Registry();
  addServerMetrics(server, registry);
  const endpoint = await serveMetrics(registry);
  const scrape = async (): Promise<Readonly<Record<string, number>>> => {
    const response = await fetch(endpoint.url);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
    const samples = (await response.text()).matchAll(/^dm_env_rpc_server_(\S+) (\S+)$/gm);
    return Object.fromEntries([...samples].map(([, name = "", value]) => [name, Number(value)]));
  };
  return { scrape, [Symbol.asyncDispose]: () => endpoint.close() };
}

describe("the metrics of a server", () => {
  it("count what was played, also in worlds that are gone", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "default-action" });
    await using server = await serving({ worlds: [tally({ clock }), broken] });
    await using metrics = await exposed(server);
    expect(await metrics.scrape()).toMatchObject({
      connections: 0,
      streams: 0,
      'worlds{type="tally"}': 0,
      'steps_total{type="broken"}': 0,
    });

    await using one = await networkPeer(server);
    await using two = await networkPeer(server);
    const world = await one.createWorld({ world_type: "tally", length: 3 });
    await one.join(world);
    await two.join(world);
    await Promise.all([one.step(), two.step()]);
    await Promise.all([one.step(), two.step()]);
    await one.step(); // The other agent misses the deadline.
    expect(await metrics.scrape()).toMatchObject({
      connections: 2,
      streams: 2,
      'worlds{type="tally"}': 1,
      'agents{type="tally"}': 2,
      'worlds_created_total{type="tally"}': 1,
      'joins_total{type="tally"}': 2,
      'sequences_total{type="tally"}': 1,
      'steps_total{type="tally"}': 5,
      'ticks_total{type="tally"}': 2,
      'deadlines_missed_total{type="tally"}': 1,
      'ticks_missed_total{type="tally"}': 0,
      'worlds{type="broken"}': 0,
    });

    await one.leave();
    await two.leave();
    await one.destroyWorld(world);
    await one.join(await one.createWorld({ world_type: "broken" }));
    await one.step();
    await expect(one.step()).rejects.toThrow("unlucky");
    expect(await metrics.scrape()).toMatchObject({
      'worlds{type="tally"}': 0,
      'agents{type="tally"}': 0,
      'worlds_created_total{type="tally"}': 1,
      'steps_total{type="tally"}': 5,
      'ticks_total{type="tally"}': 2,
      'worlds{type="broken"}': 0,
      'worlds_created_total{type="broken"}': 1,
      'worlds_failed_total{type="broken"}': 1,
    });
  });

  it("sum up the worlds of single agents", async () => {
    await using server = await serving({ worlds: [tally({ perAgent: true })] });
    await using metrics = await exposed(server);
    await using one = await networkPeer(server);
    await using two = await networkPeer(server);
    const world = await one.createWorld();
    await one.join(world);
    await two.join(world);
    await one.step();
    await two.step();
    await two.step();
    await two.leave();
    expect(await metrics.scrape()).toMatchObject({
      'worlds{type="tally"}': 1,
      'agents{type="tally"}': 1,
      'sequences_total{type="tally"}': 2,
      'steps_total{type="tally"}': 3,
    });
  });

  it("have the mean lag of the ticks of real-time worlds", async () => {
    await using server = await serving({ worlds: [clockwork] });
    await using metrics = await exposed(server);
    await using peer = await networkPeer(server);
    await peer.join(await peer.createWorld());
    for (let steps = 0; steps < 20; steps++) {
      await peer.step();
    }
    const played = await metrics.scrape();
    const ticks = played['ticks_total{type="clockwork"}'] ?? 0;
    expect(ticks).toBeGreaterThanOrEqual(19);
    const lag = played['tick_lag_seconds_total{type="clockwork"}'] ?? 0;
    expect(lag).toBeGreaterThan(0);
    expect(lag / ticks).toBeLessThan(10);
  });

  it("count the streams that limits refuse or end, by the limit", async () => {
    const time = manualTime();
    await using server = await serving({
      worlds: [tally()],
      time,
      limits: { maxStreams: 1, idleStreamMs: 1_000 },
    });
    await using metrics = await exposed(server);
    await using first = await networkPeer(server);
    await first.join(await first.createWorld());
    await using second = await networkPeer(server);
    await second.closed;
    await first.leave();
    time.advance(1_250); // The limit, and the time between two checks.
    time.advance(1_000); // The next checks run before the stream has closed.
    await first.closed; // Idle.
    expect(await metrics.scrape()).toMatchObject({
      'refused_total{limit="maxStreams"}': 1,
      'refused_total{limit="idleStreamMs"}': 1,
    });
  });

  it.each(["maxConnections", "maxConnectionsPerAddress"] as const)(
    "count the connections that %s refuses",
    async (limit) => {
      await using server = await serving({ worlds: [tally()], limits: { [limit]: 1 } });
      await using metrics = await exposed(server);
      await using first = await networkPeer(server);
      await first.createWorld();
      await networkPeer(server).then(
        ({ closed }) => closed,
        () => {},
      );
      const page = await fetch(server.url);
      expect(page.status).toBe(503);
      expect(await metrics.scrape()).toMatchObject({ [`refused_total{limit="${limit}"}`]: 2 });
    },
  );

  it("count the requests and calls above the rate of an address", async () => {
    await using server = await serving({ worlds: [tally()], limits: { maxRequestsPerSecond: 1 } });
    await using metrics = await exposed(server);
    await using peer = await networkPeer(server);
    const create = () => peer.createWorld().catch(String);
    const answers = await Promise.all(Array.from({ length: 12 }, create));
    const refused = answers.filter((answer) => answer.includes("maxRequestsPerSecond"));
    expect(refused.length).toBeGreaterThan(0);
    const name = 'refused_total{limit="maxRequestsPerSecond"}';
    expect(await metrics.scrape()).toMatchObject({ [name]: refused.length });
  });

  it("have the bytes of messages that are incomplete", async () => {
    await using server = await serving({ worlds: [tally()] });
    await using metrics = await exposed(server);
    const session = connectHttp2(server.url);
    const call = session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/grpc",
    });
    call.on("error", () => {});
    const half = Buffer.alloc(5 + 50_000);
    half.writeUInt32BE(100_000, 1);
    half.set([0xa2, 0x01, 0x9b, 0x8d, 0x06], 5); // An unknown field of 99,995 bytes.
    call.write(half);
    await until(() => server.counts().bufferedBytes >= 50_000);
    const { buffered_bytes: bytes } = await metrics.scrape();
    expect(bytes).toBe(server.counts().bufferedBytes);
    session.destroy();
  });
});

describe("an endpoint", () => {
  it("has only /metrics, with the metrics of the process if they are added", async () => {
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    await using endpoint = await serveMetrics(registry);
    const text = await (await fetch(endpoint.url)).text();
    for (const name of ["nodejs_eventloop_lag_p99_seconds", "process_resident_memory_bytes"]) {
      expect(text).toMatch(new RegExp(`^${name} \\S+$`, "m"));
    }
    const other = await fetch(endpoint.url.replace("metrics", "secrets"));
    expect([other.status, await other.text()]).toEqual([404, "metrics are at /metrics\n"]);
    expect((await fetch(endpoint.url, { method: "POST" })).status).toBe(404);
  });

  it("answers 500 and reports the error if a metric cannot be read", async () => {
    const registry = new Registry();
    new Gauge({
      name: "broken",
      help: "Fails",
      registers: [registry],
      collect() {
        throw new Error("unlucky");
      },
    });
    const errors: Error[] = [];
    await using endpoint = await serveMetrics(registry, { onError: (error) => errors.push(error) });
    expect((await fetch(endpoint.url)).status).toBe(500);
    expect(errors.map(({ message }) => message)).toEqual(["unlucky"]);
  });

  it("rejects if its port is in use", async () => {
    await using endpoint = await serveMetrics(new Registry());
    const port = Number(new URL(endpoint.url).port);
    await expect(serveMetrics(new Registry(), { port })).rejects.toThrow("EADDRINUSE");
  });
});
