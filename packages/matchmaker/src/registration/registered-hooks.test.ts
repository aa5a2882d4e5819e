// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { Registry } from "../../testing/registry.ts";
import type { ServedWorld } from "./register.ts";
import { type ServeHooks, serveRegistered } from "./serve-registered.ts";

const world: ServedWorld = { name: "world", type: "gridworld", agents: 1, joins: 1, sequences: 1 };

/** A server with one world that closes when a test ends it. */
function scripted() {
  const closes: (number | undefined)[] = [];
  let worlds: readonly ServedWorld[] = [world];
  let close = (): void => {};
  const closed = new Promise<void>((resolve) => {
    close = resolve;
  });
  return {
    url: "http://server.test:1",
    worlds: () => worlds,
    async close(options?: { readonly graceMs?: number | undefined }) {
      closes.push(options?.graceMs);
      if (options?.graceMs === undefined) {
        close();
      }
      await closed;
      worlds = [];
    },
    closes,
    /** Ends the server, as if its last agent had left. */
    end: () => close(),
    [Symbol.asyncDispose]: async () => {},
  };
}

async function open() {
  const registry = new Registry();
  const server = scripted();
  let hooks: ServeHooks | undefined;
  const registered = await serveRegistered(async (given) => {
    hooks = given;
    return server;
  }, registry.options);
  await registered.registration.registered;
  await registry.pass(200);
  registry.asked.length = 0;
  const emit = (kind: string): void => hooks?.onEvent({ kind });
  return { registry, server, registered, emit };
}

describe("an event of a registered server's world", () => {
  it.each(["world-created", "world-destroyed", "world-failed", "agent-joined", "agent-left"])(
    "is reported immediately if it is %s",
    async (kind) => {
      const { registry, registered, emit } = await open();
      emit(kind);
      await registry.settle();
      expect(registry.asked).toEqual(["a: renew"]);
      await registered.close();
    },
  );

  it("that starts a sequence is reported within a second, together with all sequences that start in that second", async () => {
    const { registry, registered, emit } = await open();
    for (let round = 1; round <= 2; round++) {
      emit("sequence-started");
      await registry.pass(500);
      emit("sequence-started");
      await registry.pass(499);
      expect(registry.asked).toHaveLength(round - 1);
      await registry.pass(1);
      expect(registry.asked).toHaveLength(round);
      await registry.pass(1_000);
      expect(registry.asked).toHaveLength(round);
    }
    await registered.close();
  });

  it("of any other kind triggers no report", async () => {
    const { registry, registered, emit } = await open();
    emit("agent-stepped");
    await registry.pass(2_000);
    expect(registry.asked).toEqual([]);
    await registered.close();
  });
});

describe("a server that starts", () => {
  it("refuses agents with a token before it registers, and loses no event", async () => {
    const registry = new Registry();
    const server = scripted();
    await using registered = await serveRegistered(async ({ authorize, joinToken, onEvent }) => {
      expect(await authorize({ metadata: new Map() })).toEqual(["agent"]);
      await expect(joinToken("token", "world")).rejects.toMatchObject({ code: "UNAVAILABLE" });
      onEvent({ kind: "world-created" });
      onEvent({ kind: "sequence-started" });
      await registry.pass(1_000);
      return server;
    }, registry.options);
    await registered.registration.registered;
    expect(registry.registrations).toMatchObject([{ worlds: [{ name: "world" }] }]);
  });

  it("is closed if it cannot register", async () => {
    const registry = new Registry();
    const server = scripted();
    const options = { ...registry.options, matchmakers: [], transports: [] };
    await expect(serveRegistered(async () => server, options)).rejects.toThrow(/matchmaker/);
    expect(server.closes).toEqual([undefined]);
  });
});

describe("a registered server that closes", () => {
  it("without a grace period deregisters first, and leaves no timer behind", async () => {
    const { registry, server, registered, emit } = await open();
    emit("sequence-started");
    await registered[Symbol.asyncDispose]();
    expect(registry.asked).toEqual(["a: renew", "a: deregister"]);
    expect(registry.renewals.at(-1)?.worlds).toMatchObject([{ name: "world", agents: 1 }]);
    expect(server.closes).toEqual([undefined]);
    expect(registry.time.timers).toBe(0);
  });

  it("with a grace period drains first, and reports ended worlds as empty", async () => {
    const { registry, server, registered } = await open();
    const closing = registered.close({ graceMs: 10_000 });
    await registry.settle();
    expect(registry.asked).toEqual(["a: drain"]);
    expect(server.closes).toEqual([15_000]);
    server.end();
    await closing;
    expect(registry.asked).toEqual(["a: drain", "a: renew", "a: deregister"]);
    expect(registry.renewals.at(-1)?.worlds).toMatchObject([{ name: "world", agents: 0 }]);
    expect(registry.time.timers).toBe(0);
  });

  it("deregisters at the end of its grace period, or earlier if a later call shortens the grace period", async () => {
    for (const later of [undefined, 1_000]) {
      const { registry, registered } = await open();
      const closing = registered.close({ graceMs: 10_000 });
      await registry.settle();
      const both = [closing, ...(later ? [registered.close({ graceMs: later })] : [])];
      await registry.pass((later ?? 10_000) - 1);
      expect(registry.asked).not.toContain("a: deregister");
      await registry.pass(1);
      await Promise.all(both);
      expect(registry.asked).toContain("a: deregister");
      expect(registry.renewals.at(-1)?.worlds).toMatchObject([{ agents: 1 }]);
    }
  });

  it("may have a grace period that is longer than any timer", async () => {
    const { server, registered, registry } = await open();
    const closing = registered.close({ graceMs: 2 ** 31 });
    await registry.settle();
    expect(server.closes).toEqual([2 ** 31 - 1]);
    server.end();
    await closing;
  });
});
