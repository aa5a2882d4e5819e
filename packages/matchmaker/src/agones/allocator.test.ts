// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { makeCertificates, opensslMissing } from "../../../server/testing/certificates.ts";
import { AgonesApi, type AgonesApiOptions } from "../../testing/agones-api.ts";
import { agonesAllocator, gameServerLabel } from "./index.ts";

const account = { namespace: "games", token: "the token of the account" };

/** Starts a stand-in for Agones' API, and an allocator that calls it; `add` adds a GameServer. */
async function open(options: Partial<AgonesApiOptions> & { readonly ca?: string } = {}) {
  const api = await AgonesApi.start({ ...account, ...options });
  const add = (name: string, state: "Ready" | "Allocated" | "Scheduled" = "Ready") => {
    api.gameServers.set(name, { state, labels: { [gameServerLabel]: name } });
    return {
      id: `server-of-${name}`,
      address: "10.0.0.1:7000",
      labels: { [gameServerLabel]: name },
    };
  };
  const allocator = agonesAllocator({
    url: api.url,
    namespace: account.namespace,
    token: () => `${account.token}\n`,
    ca: options.ca,
  });
  const allocate = (server: ReturnType<typeof add>, timeoutMs = 60_000) =>
    allocator.allocate(server, timeoutMs);
  return { api, add, allocate, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

describe("the allocator for Agones, against a stand-in for its API", () => {
  it("allocates the GameServer of the server, and no other", async () => {
    await using cluster = await open();
    cluster.add("gs-1");
    const second = cluster.add("gs-2");
    expect(await cluster.allocate(second)).toBe(true);
    const states = [...cluster.api.gameServers.values()].map(({ state }) => state);
    expect(states).toEqual(["Ready", "Allocated"]);
  });

  it("makes no request for a server without the label of a GameServer", async () => {
    await using cluster = await open();
    const { id, address } = cluster.add("gs-1");
    expect(await cluster.allocate({ id, address, labels: {} as never })).toBe(false);
    expect(cluster.api.requests).toBe(0);
  });

  it.each(["Contention", 409, 429, 500, 503] as const)(
    "repeats the request after %s",
    async (outcome) => {
      await using cluster = await open();
      cluster.api.outcomes.push(outcome, outcome);
      expect(await cluster.allocate(cluster.add("gs-1"))).toBe(true);
      expect(cluster.api.requests).toBe(3);
    },
  );

  it.each([
    ["Contention", "state Contention"],
    [409, "status 409: the request failed"],
    [503, "status 503: the request failed"],
  ] as const)("gives up after six attempts, and reports the last one's %s", async (last, text) => {
    await using cluster = await open();
    const server = cluster.add("gs-1");
    cluster.api.outcomes.push(...Array.from({ length: 5 }, () => "Contention" as const), last);
    await expect(cluster.allocate(server)).rejects.toThrow(
      `GameServer "gs-1" cannot be allocated: expected an allocation within 6 attempts, the last of which received ${text}`,
    );
    expect(cluster.api.requests).toBe(6);
  });

  it("fails at once if no GameServer is Ready, and succeeds once it is", async () => {
    await using cluster = await open();
    const server = cluster.add("gs-1", "Scheduled");
    await expect(cluster.allocate(server)).rejects.toThrow(
      /^GameServer "gs-1" cannot be allocated: expected a GameServer that is Ready in namespace "games", received UnAllocated/,
    );
    expect(cluster.api.requests).toBe(1);
    cluster.add("gs-1");
    expect(await cluster.allocate(server)).toBe(true);
  });

  it("allocates a GameServer again if the first response was lost", async () => {
    await using cluster = await open();
    const server = cluster.add("gs-1");
    cluster.api.outcomes.push("lost");
    await expect(cluster.allocate(server)).rejects.toThrow(/^the Kubernetes API at http:/);
    expect(cluster.api.gameServers.get("gs-1")?.state).toBe("Allocated");
    expect(await cluster.allocate(server)).toBe(true);
  });

  it("does not use a GameServer that another program has allocated", async () => {
    await using cluster = await open();
    await expect(cluster.allocate(cluster.add("gs-1", "Allocated"))).rejects.toThrow("UnAllocated");
  });

  it("names the right that the service account lacks", async () => {
    await using cluster = await open({ namespace: "others" });
    await expect(cluster.allocate(cluster.add("gs-1"))).rejects.toThrow(
      /received 403: .*; grant the service account the verb "create" on gameserverallocations in namespace "games"$/,
    );
    await using stranger = await open({ token: "another" });
    await expect(stranger.allocate(stranger.add("gs-1"))).rejects.toThrow("received 401");
  });

  it("reports a refused request, and sends a request that fits the schema", async () => {
    await using cluster = await open();
    cluster.api.outcomes.push(422);
    await expect(cluster.allocate(cluster.add("gs-1"))).rejects.toThrow("received 422");
    expect(await cluster.allocate(cluster.add("gs-2"))).toBe(true);
  });

  it("fails if the API does not answer in time, or cannot be reached", async () => {
    const cluster = await open();
    const server = cluster.add("gs-1");
    cluster.api.outcomes.push("hangs");
    await expect(cluster.allocate(server, 100)).rejects.toThrow("failed: no answer in time");
    await cluster[Symbol.asyncDispose]();
    await expect(cluster.allocate(server)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it.skipIf(opensslMissing() !== undefined)("trusts only the given authority", async () => {
    const { authority, server: tls } = makeCertificates();
    await using cluster = await open({ tls, ca: authority });
    expect(await cluster.allocate(cluster.add("gs-1"))).toBe(true);
    await using stranger = await open({ tls });
    await expect(stranger.allocate(stranger.add("gs-1"))).rejects.toThrow(/certificate/);
    expect(stranger.api.requests).toBe(0);
  });
});
