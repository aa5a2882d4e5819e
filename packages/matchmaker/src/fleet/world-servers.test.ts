// SPDX-License-Identifier: Apache-2.0
import dns from "node:dns";
import { once } from "node:events";
import { createServer } from "node:http2";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { connect } from "@dm-env-rpc/client";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, it, vi } from "vitest";
import { faultOf, networkServers } from "./world-servers.ts";

const drained = defineWorld({
  name: "drained",
  actions: { move: t.int32() },
  observations: { move: t.int32() },
  onDestroy: "drain",
  resetDeadlineMs: 60_000,
  clock: lockstep(),
  create: () => ({ step() {}, observe: { move: () => 0 }, status: () => "running" }),
});

it("a destroy that waits for agents to leave does not block other requests to the server", async () => {
  await using server = await serve({ worlds: [drained] });
  await using servers = networkServers();
  const target = { id: "a", address: server.url };
  const name = await servers.create(target, {}, undefined, 60_000);
  await using connection = await connect(server.url);
  await using env = await connection.join(name, { as: drained });
  await env.reset();
  let isDestroyed = false;
  const destroying = servers.destroy(target, name, 60_000).then(() => {
    isDestroyed = true;
  });
  const other = await servers.create(target, {}, undefined, 60_000);
  expect(other).not.toBe(name);
  await servers.destroy(target, other, 60_000);
  expect(isDestroyed).toBe(false);
  await env.close();
  await destroying;
  expect(server.worldNames()).toEqual([]);
});

it.each([
  ["large", Buffer.alloc(100_000)],
  ["slow to decode", Buffer.alloc(50_000, Buffer.of(0x70, 0))],
])("an answer that is %s is refused", async (_what, answer) => {
  const server = createServer();
  server.on("stream", (stream) => {
    stream.on("error", () => {});
    stream.respond({ ":status": 200, "content-type": "application/grpc" });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(answer.length, 1);
    stream.write(Buffer.concat([prefix, answer]));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await using servers = networkServers();
  await expect(servers.check({ id: "a", address }, 10_000)).rejects.toThrow(
    /too large|maxMessageWork|budget/,
  );
  server.close();
});

it("a reset that waits for an agent's next step does not block other requests to the server", async () => {
  await using server = await serve({ worlds: [drained] });
  await using servers = networkServers();
  const target = { id: "a", address: server.url };
  const name = await servers.create(target, {}, undefined, 60_000);
  await using connection = await connect(server.url);
  await using env = await connection.join(name, { as: drained });
  await env.reset();
  await env.step({ move: 1 });
  let isReset = false;
  const resetting = servers.reset(target, name, 60_000).then(() => {
    isReset = true;
  });
  const other = await servers.create(target, {}, undefined, 60_000);
  await servers.reset(target, other, 60_000);
  await servers.destroy(target, other, 60_000);
  expect(isReset).toBe(false);
  const last = await env.step({ move: 1 });
  expect(last.state).toBe("interrupted");
  await resetting;
  expect((await env.step({ move: 1 })).first()).toBe(true);
});

it("a server that registers with another address is called at that address", async () => {
  await using before = await serve({ worlds: [drained] });
  await using after = await serve({ worlds: [drained] });
  await using servers = networkServers();
  await servers.create({ id: "a", address: before.url }, {}, undefined, 60_000);
  await servers.create({ id: "a", address: after.url }, {}, undefined, 60_000);
  await servers.create({ id: "a", address: after.url }, {}, undefined, 60_000);
  expect([before.worldNames(), after.worldNames()].map(({ length }) => length)).toEqual([1, 2]);
});

it("a server that is checked receives no token, because its identity is not verified yet", async () => {
  const shown: (string | undefined)[] = [];
  await using server = await serve({
    worlds: [drained],
    authorize({ metadata }) {
      shown.push(metadata.get("authorization"));
      return ["operator"];
    },
  });
  await using servers = networkServers({ operatorToken: async ({ id }) => `token-for-${id}` });
  const target = { id: "a", address: server.url };
  await servers.check(target, 60_000);
  expect(shown).toEqual([undefined]);
  await servers.create(target, {}, undefined, 60_000);
  expect(shown).toEqual([undefined, "Bearer token-for-a"]);
});

/** Lets each lookup of a name resolve to the next address. */
function namesResolvingTo(...addresses: string[]): Disposable {
  const lookup = (
    _name: string,
    { all }: dns.LookupOptions,
    done: (error: null, found: string | dns.LookupAddress[], family?: number) => void,
  ): void => {
    const address = addresses.shift() ?? "no more addresses";
    done(null, all === true ? [{ address, family: 4 }] : address, 4);
  };
  const spy = vi.spyOn(dns, "lookup").mockImplementation(lookup as typeof dns.lookup);
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      spy.mockRestore();
      syncBuiltinESMExports();
    },
  };
}

it.each(["http", "ws"])(
  "a name that resolves to a link-local address only after its registration is not connected to, over %s",
  async (scheme) => {
    await using server = await serve({ worlds: [drained] });
    await using servers = networkServers();
    const address = `${scheme}://rebound.test:${new URL(server.url).port}`;
    using _names = namesResolvingTo("127.0.0.1", "169.254.169.254", "169.254.169.254");
    await servers.check({ id: "a", address }, 60_000);
    for (const call of [
      servers.create({ id: "a", address }, {}, undefined, 60_000),
      servers.destroy({ id: "a", address }, "world", 60_000),
    ]) {
      const error: unknown = await call.catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: "INVALID_ARGUMENT",
        message: expect.stringMatching(/received "\w+:\/\/rebound\.test:\d+", which is link-local/),
      });
      // Only this server is at fault: the tickets get a world on another server.
      expect(faultOf(error)).toBe("server");
    }
  },
);
