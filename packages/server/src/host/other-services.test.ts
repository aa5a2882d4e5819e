// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type ClientHttp2Stream, connect } from "node:http2";
import { expect, it } from "vitest";
import { serving } from "../../testing/network.ts";
import { tally } from "../../testing/tally.ts";
import type { ServerLimits } from "./limits.ts";
import type { Server } from "./serve.ts";

const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const watch = "/grpc.health.v1.Health/Watch";

const start = (limits: Partial<ServerLimits>): Promise<Server> =>
  serving({ worlds: [tally()], limits });

/** A connection whose calls can send malformed or no requests. */
function connection(server: Server) {
  const session = connect(server.url);
  session.on("error", () => {});
  return {
    call(path: string): ClientHttp2Stream {
      const type = { "content-type": "application/grpc", te: "trailers" };
      const stream = session.request({ ":method": "POST", ":path": path, ...type });
      stream.on("error", () => {});
      stream.resume();
      return stream;
    },
    [Symbol.dispose]: () => session.destroy(),
  };
}

async function statusOf(stream: ClientHttp2Stream): Promise<unknown> {
  const [headers] = await once(stream, "response");
  if (headers["grpc-status"] !== undefined) {
    return headers["grpc-status"];
  }
  const [trailers] = await once(stream, "trailers");
  return trailers["grpc-status"];
}

it("maxStreams: also limits calls of other services", async () => {
  await using server = await start({ maxStreams: 2 });
  using client = connection(server);
  const silent = [client.call(reflection), client.call(reflection)];
  expect(await statusOf(client.call(reflection))).toBe("8");
  silent[0]?.close();
  await once(silent[0] as ClientHttp2Stream, "close");
  const late = client.call(reflection);
  late.end();
  expect(await statusOf(late)).toBe("0");
});

it("maxStreams: answers a health check although watches use up the limit", async () => {
  await using server = await start({ maxStreams: 2 });
  using client = connection(server);
  for (let i = 0; i < 2; i++) {
    const watching = client.call(watch);
    watching.end(Buffer.alloc(5));
    await once(watching, "data");
  }
  expect(await statusOf(client.call(watch))).toBe("8");
  const checking = client.call("/grpc.health.v1.Health/Check");
  checking.end(Buffer.alloc(5));
  expect(await statusOf(checking)).toBe("0");
});

it("maxStreamsPerAddress: limits the calls of one address", async () => {
  await using server = await start({ maxStreamsPerAddress: 1 });
  using client = connection(server);
  const watching = client.call(watch);
  watching.end(Buffer.alloc(5));
  await once(watching, "data");
  expect(await statusOf(client.call(watch))).toBe("8");
  expect(server.counts().refusals.get("maxStreamsPerAddress")).toBe(1);
});

it("idleStreamMs: resets calls of other services that send nothing, but not watches", async () => {
  await using server = await start({ idleStreamMs: 100 });
  using client = connection(server);
  const watching = client.call(watch);
  watching.end(Buffer.alloc(5));
  await once(watching, "data");
  const silent = client.call(reflection);
  await once(silent, "close");
  const half = client.call(reflection);
  half.write(Buffer.from([0, 0, 0, 0, 9, 1]));
  await once(half, "close");
  expect([silent.rstCode, half.rstCode]).toEqual([8, 8]);
  expect(watching.closed).toBe(false);
});

it.each([reflection, watch])(
  "%s refuses a message that is larger than any valid request",
  async (path) => {
    await using server = await start({});
    using client = connection(server);
    const call = client.call(path);
    const header = Buffer.alloc(5);
    header.writeUInt32BE(64 * 1024 + 1, 1);
    call.write(header);
    expect(await statusOf(call)).toBe("8");
  },
);
