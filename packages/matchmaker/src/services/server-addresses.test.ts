// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { ServerRecord } from "../model/model.ts";
import { put, Replica, remove } from "../replica/replica.ts";
import { memoryStore } from "../store/memory-store.ts";
import { ServerAddresses } from "./server-addresses.ts";

const serverAt = (id: string, address: string, epoch = 1): ServerRecord => ({
  id,
  address,
  epoch,
  maxWorlds: 1,
  maxAgents: 2,
  worldTypes: [],
  joinTokens: true,
  state: "serving",
});

/** Returns the addresses of a replica, and functions that commit registrations. */
function followed() {
  const replica = new Replica(memoryStore());
  const addresses = new ServerAddresses(replica);
  const register = (server: ServerRecord): Promise<unknown> =>
    replica.commit([put("server", server.id, replica.get("server", server.id), server)]);
  const unregister = async (id: string): Promise<void> => {
    const known = replica.get("server", id);
    if (known === undefined) {
      throw new Error(`not registered: ${id}`);
    }
    await replica.commit([remove("server", id, known)]);
  };
  return { replica, addresses, register, unregister };
}

it("no server is found at an address where none is registered", async () => {
  const { addresses, register } = followed();
  expect(addresses.at("10.0.0.1:1")).toEqual([]);
  await register(serverAt("a", "10.0.0.1:1"));
  expect(addresses.at("10.0.0.1:2")).toEqual([]);
});

it("servers are found by every form of their address", async () => {
  const { addresses, register } = followed();
  await register(serverAt("a", "10.0.0.1:1"));
  await register(serverAt("b", "http://10.0.0.1:1/"));
  await register(serverAt("c", "10.0.0.1:2"));
  expect(addresses.at("http://10.0.0.1:1")).toEqual(["a", "b"]);
  expect(addresses.at("10.0.0.1:2")).toEqual(["c"]);
});

it("servers that are registered when the process starts are found", async () => {
  const { replica, register } = followed();
  await register(serverAt("a", "10.0.0.1:1"));
  expect(new ServerAddresses(replica).at("10.0.0.1:1")).toEqual(["a"]);
});

it("a server that registers elsewhere is found at its new address only", async () => {
  const { addresses, register } = followed();
  await register(serverAt("a", "10.0.0.1:1"));
  await register(serverAt("b", "10.0.0.1:1"));
  await register(serverAt("a", "10.0.0.1:2", 2));
  expect(addresses.at("10.0.0.1:1")).toEqual(["b"]);
  expect(addresses.at("10.0.0.1:2")).toEqual(["a"]);
});

it("a server that registers again at its address keeps its place among the servers there", async () => {
  const { addresses, register } = followed();
  await register(serverAt("a", "10.0.0.1:1"));
  await register(serverAt("b", "10.0.0.1:1"));
  await register(serverAt("a", "10.0.0.1:1", 2));
  expect(addresses.at("10.0.0.1:1")).toEqual(["a", "b"]);
});

it("a server that has unregistered is not found, and the others at its address are", async () => {
  const { addresses, register, unregister } = followed();
  await register(serverAt("a", "10.0.0.1:1"));
  await register(serverAt("b", "10.0.0.1:1"));
  await unregister("a");
  expect(addresses.at("10.0.0.1:1")).toEqual(["b"]);
  await unregister("b");
  expect(addresses.at("10.0.0.1:1")).toEqual([]);
});
