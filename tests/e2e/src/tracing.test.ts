// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { FrontendService, MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { context, propagation, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { describe, expect, it } from "vitest";

const environment = "dm_env_rpc.v1.Environment";
const createTicket = "matchmaker.v1.FrontendService/CreateTicket";

const meadow = defineWorld({
  name: "meadow",
  settings: { size: t.int32({ min: 1, max: 9 }) },
  actions: { wait: t.bool() },
  observations: { agents: t.int32() },
  agents: { min: 2 },
  create() {
    let agents = 0;
    return {
      join: () => {
        agents += 1;
      },
      leave: () => {
        agents -= 1;
      },
      step() {},
      observe: { agents: () => agents },
    };
  },
});

const pairs = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "everyone" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: "meadow",
  worldSettings: { size: { shape: [], payload: { case: "int32s", value: { array: [3] } } } },
  backfill: true,
});

/** Registers an SDK until it is disposed; its spans stay in memory. */
function recording() {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  trace.setGlobalTracerProvider(provider);
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const all = (name: string, kind?: SpanKind): ReadableSpan[] =>
    exporter
      .getFinishedSpans()
      .filter((span) => span.name === name && (kind === undefined || span.kind === kind));
  return {
    exporter,
    all,
    /** Waits for the only span with a name and kind. */
    async one(name: string, kind?: SpanKind): Promise<ReadableSpan> {
      await expect.poll(() => all(name, kind)).toHaveLength(1);
      return all(name, kind)[0] as ReadableSpan;
    },
    async [Symbol.asyncDispose]() {
      trace.disable();
      propagation.disable();
      context.disable();
      await provider.shutdown();
    },
  };
}

/** Runs an agent within a span of its own, and returns its result with the span. */
async function within<T>(name: string, run: () => Promise<T>) {
  return await trace.getTracer("agent").startActiveSpan(name, async (span) => {
    try {
      return { result: await run(), span: span.spanContext() };
    } finally {
      span.end();
    }
  });
}

/** A matchmaker with a registered server. */
async function fleet() {
  const seen: ReadonlyMap<string, string>[] = [];
  const matchmaker = await serveMatchmaker({ profiles: [pairs] });
  const served = await serveRegistered(
    (hooks) =>
      serve({
        worlds: [meadow],
        ...hooks,
        authorize: (peer) => {
          seen.push(peer.metadata);
          return hooks.authorize(peer);
        },
      }),
    { matchmakers: matchmaker.url, worldTypes: ["meadow"], maxWorlds: 10, maxAgents: 20 },
  );
  await served.registration.registered;
  return {
    url: matchmaker.url,
    address: served.server.url,
    /** Metadata of the streams to the server. */
    seen,
    async [Symbol.asyncDispose]() {
      await served.close();
      await matchmaker.close();
    },
  };
}

const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId;
const linked = (span: ReadableSpan | undefined) =>
  span?.links.map((link) => `${link.context.traceId} ${link.context.spanId}`).sort();
const idsOf = ({ traceId, spanId }: { readonly traceId: string; readonly spanId: string }) =>
  `${traceId} ${spanId}`;

describe("traces", () => {
  it("lead from the ticket to the match, the world and the join", async () => {
    await using spans = recording();
    await using servers = await fleet();
    const client = matchmakerClient(servers.url);
    const play = (name: string) =>
      within(name, async () => {
        const agent = await joinMatch(await client.findMatch(), { as: meadow });
        await agent.reset();
        await agent.step({ wait: true });
        return agent;
      });
    const agents = await Promise.all([play("one"), play("two")]);
    await Promise.all(agents.map(({ result }) => result.close()));
    await expect.poll(() => spans.all(`${environment}/Process`).length).toBeGreaterThanOrEqual(3);

    const match = await spans.one("match pairs");
    const { traceId } = match.spanContext();
    expect([match.kind, match.parentSpanContext]).toEqual([SpanKind.CONSUMER, undefined]);
    expect(match.attributes).toMatchObject({
      "messaging.operation.type": "process",
      "messaging.destination.name": "pairs",
      "messaging.batch.message_count": 2,
    });
    const tickets = spans.all(createTicket, SpanKind.SERVER);
    expect(linked(match)).toEqual(tickets.map((ticket) => idsOf(ticket.spanContext())).sort());

    const calling = await spans.one(`${environment}/CreateWorld`, SpanKind.CLIENT);
    const creating = await spans.one(`${environment}/CreateWorld`, SpanKind.SERVER);
    expect([calling, creating].map((span) => span.spanContext().traceId)).toEqual([
      traceId,
      traceId,
    ]);
    expect(parentOf(calling)).toBe(match.spanContext().spanId);
    expect(parentOf(creating)).toBe(calling.spanContext().spanId);
    expect(creating.attributes).toMatchObject({
      "rpc.system.name": "dm_env_rpc",
      "rpc.method": `${environment}/CreateWorld`,
      "rpc.response.status_code": "OK",
      "client.address": "127.0.0.1",
      "dm_env_rpc.world.name": "meadow-1",
    });

    for (const { span } of agents) {
      const own = (all: ReadableSpan[]) =>
        all.filter((each) => each.spanContext().traceId === span.traceId);
      const [ticket, ...others] = own(tickets);
      expect([parentOf(ticket), others]).toEqual([span.spanId, []]);
      const [join] = own(spans.all(`${environment}/JoinWorld`));
      expect([parentOf(join), linked(join)]).toEqual([span.spanId, [idsOf(match.spanContext())]]);
      expect(own(spans.all(`${environment}/Process`)).map(parentOf)).toEqual([span.spanId]);
    }
    const names = new Set(spans.exporter.getFinishedSpans().map(({ name }) => name));
    expect([...names].filter((name) => /step|reset$/i.test(name))).toEqual([]);
  });

  it("link the tickets that later fill an open seat, and the match", async () => {
    await using spans = recording();
    await using servers = await fleet();
    const client = matchmakerClient(servers.url);
    const [stays, leaves] = await Promise.all(
      [1, 2].map(async () => await joinMatch(await client.findMatch(), { as: meadow })),
    );
    await leaves?.close();
    const late = await within("late", async () => await joinMatch(await client.findMatch()));
    const match = await spans.one("match pairs");
    const backfill = await spans.one("backfill pairs");
    const ticket = spans
      .all(createTicket)
      .find((span) => span.spanContext().traceId === late.span.traceId);
    expect(linked(backfill)).toEqual(
      [match, ticket].map((span) => span && idsOf(span.spanContext())).sort(),
    );
    const join = spans
      .all(`${environment}/JoinWorld`)
      .find((span) => span.spanContext().traceId === late.span.traceId);
    expect(linked(join)).toEqual([idsOf(backfill.spanContext())]);
    await late.result.close();
    await stays?.close();
  });

  it("have the requests of operators, with the code of each response", async () => {
    await using spans = recording();
    await using server = await serve({ worlds: [meadow] });
    const { span } = await within("operator", async () => {
      await using connection = await connect(server.url);
      const world = await connection.createWorld({ settings: { size: 1 } });
      await connection.resetWorld(world);
      await connection.destroyWorld(world);
      await expect(connection.destroyWorld(world)).rejects.toThrow("unknown world");
      await expect(connection.createWorld({ settings: { size: 0 } })).rejects.toThrow("size");
    });
    await spans.one(`${environment}/Process`);
    const requests = spans.exporter
      .getFinishedSpans()
      .filter((each) => each.kind === SpanKind.SERVER)
      .map((each) => {
        expect(each.spanContext().traceId).toBe(span.traceId);
        expect(each.status.code).toBe(SpanStatusCode.UNSET);
        const { attributes } = each;
        return [each.name.split("/")[1], attributes["rpc.response.status_code"]];
      });
    expect(requests).toEqual([
      ["CreateWorld", "OK"],
      ["ResetWorld", "OK"],
      ["DestroyWorld", "OK"],
      ["DestroyWorld", "NOT_FOUND"],
      ["CreateWorld", "INVALID_ARGUMENT"],
      ["Process", "OK"],
    ]);
  });

  it("have the error of a world that fails, and of a stream that is lost", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: {},
      observations: {},
      create: () => {
        throw new Error("unlucky");
      },
    });
    await using spans = recording();
    await using server = await serve({ worlds: [broken] });
    const connection = await connect(server.url);
    await expect(connection.createWorld()).rejects.toThrow("unlucky");
    await server.close();
    const created = await spans.one(`${environment}/CreateWorld`);
    expect(created.status).toMatchObject({
      code: SpanStatusCode.ERROR,
      message: expect.stringContaining("unlucky"),
    });
    expect(created.attributes).toMatchObject({ "error.type": "INTERNAL" });
    const stream = await spans.one(`${environment}/Process`);
    expect(stream.attributes).toMatchObject({ "rpc.response.status_code": "UNAVAILABLE" });
    await connection.close();
  });

  it("begin anew for a malformed header", async () => {
    await using spans = recording();
    await using servers = await fleet();
    const frontend = createClient(FrontendService, createGrpcTransport({ baseUrl: servers.url }));
    for (const traceparent of ["x".repeat(10_000), `00-${"0".repeat(32)}-${"1".repeat(16)}-01`]) {
      await frontend.createTicket({}, { headers: { traceparent } });
    }
    const match = await spans.one("match pairs");
    const tickets = spans.all(createTicket);
    expect(tickets.map(parentOf)).toEqual([undefined, undefined]);
    expect(linked(match)).toEqual(tickets.map((ticket) => idsOf(ticket.spanContext())).sort());
  });

  it("do not follow what was active as the matchmaker started", async () => {
    await using spans = recording();
    const { result, span } = await within("startup", fleet);
    await using servers = result;
    const client = matchmakerClient(servers.url);
    const agents = await Promise.all(
      [1, 2].map(async () => await joinMatch(await client.findMatch())),
    );
    await Promise.all(agents.map((agent) => agent.close()));
    await spans.one(`${environment}/CreateWorld`, SpanKind.SERVER);
    const ofStartup = spans.exporter
      .getFinishedSpans()
      .filter((each) => each.spanContext().traceId === span.traceId);
    expect(ofStartup.map(({ name }) => name)).toEqual(["startup"]);
    // Agents without a trace, such as those of the official Python client.
    const match = await spans.one("match pairs");
    const joins = spans.all(`${environment}/JoinWorld`);
    expect(joins.map(parentOf)).toEqual([undefined, undefined]);
    expect(joins.map(linked)).toEqual(joins.map(() => [idsOf(match.spanContext())]));
  });

  it("are not sent or kept without an SDK", async () => {
    await using servers = await fleet();
    const client = matchmakerClient(servers.url);
    const matches = await Promise.all([client.findMatch(), client.findMatch()]);
    const agents = await Promise.all(matches.map((match) => joinMatch(match)));
    await Promise.all(agents.map((agent) => agent.close()));
    for (const { joinToken } of matches) {
      const [, claims = ""] = joinToken.split(".");
      expect(JSON.parse(Buffer.from(claims, "base64url").toString())).not.toHaveProperty(
        "traceparent",
      );
    }
    expect(servers.seen.length).toBeGreaterThanOrEqual(3);
    expect(servers.seen.filter((metadata) => metadata.has("traceparent"))).toEqual([]);
  });
});
