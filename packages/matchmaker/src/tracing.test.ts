// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { describe, expect, it } from "vitest";
import { Fleet, profile } from "../testing/fleet.ts";
import { startMs } from "../testing/start-ms.ts";
import { wrappedStore, written } from "../testing/wrapped-stores.ts";
import { memoryStore } from "./store/memory-store.ts";
import type { Change } from "./store/store.ts";

const createTicket = "matchmaker.v1.FrontendService/CreateTicket";
const createWorld = "dm_env_rpc.v1.Environment/CreateWorld";

/** Opens a fleet whose spans are recorded until it is disposed. */
async function traced(options: Parameters<typeof Fleet.open>[0] = {}) {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  trace.setGlobalTracerProvider(provider);
  const time = manualTime(startMs);
  const hooks = { beforeCommit: async (_: readonly Change[]): Promise<void> => {} };
  const store = wrappedStore(memoryStore({ time }), async (run, { name, args }) => {
    if (name === "commit") {
      await hooks.beforeCommit(args[0]);
    }
    return await run();
  });
  const fleet = await Fleet.open({ time, store, ...options });
  return {
    fleet,
    hooks,
    /** Returns the spans that have ended, by name, in the order of their ends. */
    spans: (name: string): ReadableSpan[] =>
      exporter.getFinishedSpans().filter((span) => span.name === name),
    async [Symbol.asyncDispose]() {
      await fleet[Symbol.asyncDispose]();
      trace.disable();
      await provider.shutdown();
    },
  };
}

const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId;
const linksOf = (span: ReadableSpan | undefined) =>
  span?.links.map(({ context }) => context.spanId).toSorted();
const idsOf = (spans: readonly (ReadableSpan | undefined)[]) => spans.map(idOf).toSorted();
/** Returns the code of the error with which a span ended; undefined if it succeeded. */
const errorOf = ({ status, attributes }: ReadableSpan) =>
  status.code === SpanStatusCode.ERROR ? attributes["error.type"] : undefined;

describe("the span of a ticket", () => {
  it("has the method, the protocol and the id of the ticket", async () => {
    await using scene = await traced();
    const [id] = await scene.fleet.tickets(1);
    const [span, ...others] = scene.spans(createTicket);
    expect(others).toEqual([]);
    expect(span?.kind).toBe(SpanKind.SERVER);
    expect(span?.attributes).toMatchObject({
      "rpc.system.name": "connectrpc",
      "rpc.method": createTicket,
      "rpc.response.status_code": "OK",
      "dm_env_rpc.ticket.id": id,
    });
  });

  it("has the code of the error if the ticket is refused", async () => {
    await using scene = await traced();
    await expect(scene.fleet.frontend.createTicket({ profile: "unknown" })).rejects.toThrow();
    const codes = scene
      .spans(createTicket)
      .map(({ attributes }) => attributes["rpc.response.status_code"]);
    expect(codes).toEqual(["NOT_FOUND"]);
  });
});

describe.each([
  ["a new world", 0],
  ["a spare world", 1],
])("the span of a match in %s", (_, precreatedWorlds) => {
  it("links to its tickets, and has the ids of the match and its server", async () => {
    await using scene = await traced({ profiles: [profile({ precreatedWorlds })] });
    const { fleet, spans } = scene;
    await fleet.serve("a");
    await fleet.settle();
    const [id = ""] = await fleet.tickets(2);
    await fleet.settle();
    const [match, ...others] = spans("match any");
    expect(others).toEqual([]);
    expect(match?.kind).toBe(SpanKind.CONSUMER);
    expect(linksOf(match)).toEqual(idsOf(spans(createTicket)));
    const { matchId } = await fleet.ticket(id);
    expect(match?.attributes).toEqual({
      "messaging.system": "dm_env_rpc",
      "messaging.operation.type": "process",
      "messaging.operation.name": "match",
      "messaging.destination.name": "any",
      "messaging.batch.message_count": 2,
      "dm_env_rpc.match.id": matchId,
      "dm_env_rpc.server.id": "a",
    });
  });

  it("ends as aborted if a ticket is cancelled before the commit, unlike the spans of other matches", async () => {
    await using scene = await traced({ profiles: [profile({ precreatedWorlds })] });
    const { fleet, hooks, spans } = scene;
    await fleet.serve("a");
    await fleet.settle();
    const ids = await fleet.tickets(4);
    hooks.beforeCommit = async (changes) => {
      if (written(changes, "match").length > 0) {
        hooks.beforeCommit = async () => {};
        await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
      }
    };
    await fleet.matchmaker.tick();
    expect(spans("match any").map(errorOf)).toEqual(["ABORTED", undefined]);
  });
});

it("the span of a match in a spare world ends as aborted if a ticket is cancelled while tokens are signed", async () => {
  await using scene = await traced({ profiles: [profile({ precreatedWorlds: 1 })] });
  const { fleet, spans } = scene;
  await fleet.serve("a");
  await fleet.settle();
  const ids = await fleet.tickets(2);
  const tick = fleet.matchmaker.tick();
  await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
  await tick;
  expect(spans("match any").map(errorOf)).toEqual(["ABORTED"]);
});

it("the spans of matches whose commit fails without a visible conflict end as aborted", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  let refuses = true;
  await using scene = await traced({
    time,
    store: {
      ...store,
      async commit(changes, commit) {
        if (refuses && written(changes, "match").length > 0) {
          refuses = false;
          return { ok: false, conflicts: [] };
        }
        return await store.commit(changes, commit);
      },
    },
  });
  await scene.fleet.serve("a");
  await scene.fleet.tickets(4);
  await scene.fleet.matchmaker.tick();
  expect(scene.spans("match any").map(errorOf)).toEqual(["ABORTED", "ABORTED"]);
});

describe("the span of a created world", () => {
  it("continues the trace of its match, and has the names of its server and world", async () => {
    await using scene = await traced();
    const { fleet, spans } = scene;
    await fleet.serve("a");
    await fleet.tickets(2);
    await fleet.settle();
    const [span, ...others] = spans(createWorld);
    expect(others).toEqual([]);
    expect(span?.kind).toBe(SpanKind.CLIENT);
    expect(span?.parentSpanContext?.spanId).toBe(idOf(spans("match any")[0]));
    expect(span?.attributes).toEqual({
      "rpc.system.name": "dm_env_rpc",
      "rpc.method": createWorld,
      "rpc.response.status_code": "OK",
      "server.address": "a.test",
      "server.port": 1,
      "dm_env_rpc.server.id": "a",
      "dm_env_rpc.world.name": "gridworld-1",
    });
  });

  it("has the error of a create that fails, and no parent for a spare world", async () => {
    await using scene = await traced({ profiles: [profile({ precreatedWorlds: 1 })] });
    const server = await scene.fleet.serve("a");
    server.createErrors.push(new Error("no more memory"));
    await scene.fleet.matchmaker.tick();
    await scene.fleet.matchmaker.settled();
    const [span] = scene.spans(createWorld);
    expect(span?.status).toEqual({ code: SpanStatusCode.ERROR, message: "no more memory" });
    expect(span?.parentSpanContext).toBeUndefined();
  });
});

describe("the span of a backfill", () => {
  /** Starts a match of three agents, two of which have left. */
  async function vacant() {
    const scene = await traced({ profiles: [profile({ count: 3, backfill: true })] });
    const { fleet } = scene;
    const server = await fleet.serve("a", { maxWorlds: 1 });
    const ids = await fleet.tickets(3);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(1_000);
    const world = server.worlds.get("gridworld-1");
    for (const id of ids.slice(1)) {
      world?.tickets.delete(id);
    }
    await fleet.pass(1_000);
    return scene;
  }

  it("links to its ticket and to the span that last assigned tickets to the match", async () => {
    await using scene = await vacant();
    const { fleet, spans } = scene;
    const [first = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.tickets(1);
    await fleet.settle();
    const tickets = spans(createTicket);
    const [backfill, next, ...others] = spans("backfill any");
    expect(others).toEqual([]);
    expect(linksOf(backfill)).toEqual(idsOf([spans("match any")[0], tickets[3]]));
    expect(linksOf(next)).toEqual(idsOf([backfill, tickets[4]]));
    const { matchId } = await fleet.ticket(first);
    expect(backfill?.attributes).toMatchObject({
      "messaging.operation.name": "backfill",
      "messaging.batch.message_count": 1,
      "dm_env_rpc.match.id": matchId,
      "dm_env_rpc.server.id": "a",
    });
    expect(spans("backfill any").map(errorOf)).toEqual([undefined, undefined]);
  });

  it("ends as aborted if the ticket is cancelled before the commit", async () => {
    await using scene = await vacant();
    const { fleet, hooks, spans } = scene;
    const [id = ""] = await fleet.tickets(1);
    hooks.beforeCommit = async (changes) => {
      if (written(changes, "match").length > 0) {
        hooks.beforeCommit = async () => {};
        await fleet.frontend.cancelTicket({ ticketId: id });
      }
    };
    await fleet.matchmaker.tick();
    expect(spans("backfill any").map(errorOf)).toEqual(["ABORTED"]);
    expect(await fleet.states([id])).toEqual(["CANCELLED"]);
  });
});
