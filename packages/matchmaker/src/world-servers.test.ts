// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { networkServers } from "./world-servers.ts";

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
