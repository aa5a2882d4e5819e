// SPDX-License-Identifier: Apache-2.0
import { connect as connectTcp } from "node:net";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health } from "@dm-env-rpc/protocol/health";
import {
  AdminService,
  RegisterServerRequestSchema,
  RegistryService,
} from "@dm-env-rpc/protocol/matchmaker";
import { listen } from "@dm-env-rpc/transport";
import { envelope, manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { byName, refused } from "../../testing/callers.ts";
import { Fleet, profile } from "../../testing/fleet.ts";
import { type Address, begin, connectFrom, rawCall } from "../../testing/raw-calls.ts";
import { createMatchmaker } from "../matchmaker.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";

const register = "/matchmaker.v1.RegistryService/RegisterServer";
const list = "/matchmaker.v1.AdminService/ListServers";

/** Bytes that cannot be decoded as protobuf. */
const malformed = Buffer.alloc(64, 0xff);

const codes = { invalid: "3", exhausted: "8", denied: "7", unauthenticated: "16" };

describe("a call of a caller without the role", () => {
  it.each([
    ["without a name", {}, codes.unauthenticated, "not authenticated"],
    ["with the name of an agent", { name: "alice" }, codes.denied, 'the role "agent"'],
  ])("%s is refused before its request is decoded", async (_, headers, status, message) => {
    await using served = await serveMatchmaker({ authorize: byName });
    for (const path of [register, list]) {
      const refusal = await rawCall(served, { path, headers, body: envelope(malformed) });
      expect(refusal).toMatchObject({ status, message: expect.stringContaining(message) });
    }
    const asOperator = { headers: { name: "operator" }, body: envelope(malformed) };
    expect((await rawCall(served, { path: register, ...asOperator })).status).not.toBe(status);
  });

  it("is refused before its request has arrived, even if the request is large or compressed", async () => {
    await using served = await serveMatchmaker({ authorize: byName });
    const worlds = Array.from({ length: 100_000 }, () => ({}));
    const schema = RegisterServerRequestSchema;
    const request = toBinary(schema, create(schema, { worlds }));
    const zipped = envelope(gzipSync(request));
    zipped[0] = 1;
    const bomb = { path: register, headers: { "grpc-encoding": "gzip" }, body: zipped };
    expect((await rawCall(served, bomb)).status).toBe(codes.unauthenticated);
    const incomplete = { path: register, body: envelope(request).subarray(0, 1_000), ends: false };
    expect((await rawCall(served, incomplete)).status).toBe(codes.unauthenticated);
  });

  it.each(["application/json", "application/proto"])(
    "in %s over HTTP/1.1 is refused before its request is decoded",
    async (type) => {
      await using served = await serveMatchmaker({ authorize: byName });
      const call = { method: "POST", headers: { "content-type": type }, body: malformed };
      const response = await fetch(`${served.url}${register}`, call);
      expect(response.status).toBe(401);
      expect(await response.json()).toMatchObject({ code: "unauthenticated" });
    },
  );
});

it("a refused call whose request never ends does not use the reserve any longer", async () => {
  await using served = await serveMatchmaker({ authorize: byName, settings: { reservedCalls: 1 } });
  const session = connectFrom(served);
  try {
    for (let call = 0; call < 5; call++) {
      const endless = { path: register, body: Buffer.alloc(1), ends: false };
      expect((await begin(session, endless)).status).toBe(codes.unauthenticated);
    }
  } finally {
    session.destroy();
  }
});

it("a request that is larger than honest requests of its service is refused", async () => {
  await using fleet = await Fleet.open({ settings: { maxTicketBytes: 1_000 } });
  const large = "x".repeat(1_100_000);
  const tooLarge = refused(Code.ResourceExhausted, /larger than/);
  await expect(fleet.admin.getProfile({ name: large })).rejects.toSatisfy(tooLarge);
  await expect(fleet.frontend.getTicket({ ticketId: "x".repeat(5_000) })).rejects.toSatisfy(
    tooLarge,
  );
  await expect(fleet.registry.drainServer({ serverId: large.repeat(4) })).rejects.toSatisfy(
    tooLarge,
  );
  await fleet.admin.putProfile({ profile: profile({ name: "large" }) });
});

it("a caller without the role uses the rate of its network, which operators do not use", async () => {
  await using served = await serveMatchmaker({
    authorize: byName,
    settings: { maxCallsPerSecond: 1 },
    time: manualTime(),
  });
  const body = envelope(new Uint8Array());
  const call = { path: list, body };
  // A burst may use the rate of four seconds.
  for (let count = 0; count < 4; count++) {
    expect((await rawCall(served, call)).status).toBe(codes.unauthenticated);
  }
  expect(await rawCall(served, call)).toMatchObject({
    status: codes.exhausted,
    message: expect.stringContaining("(limit: maxCallsPerSecond)"),
  });
  const asOperator = { path: list, body, headers: { name: "operator" } };
  expect((await rawCall(served, asOperator)).status).toBe("0");
});

it("a call counts as refused for its connection if its caller is refused, or is never known", async () => {
  await using matchmaker = await createMatchmaker({ authorize: byName, run: false });
  const ended: string[] = [];
  await using listener = await listen({
    routes: (router) => matchmaker.routes(router),
    onStream: (stream) => stream.abort(new Error("no stream was expected")),
    onCall: (call) => {
      let outcome = "accepted";
      const end = matchmaker.admit({
        ...call,
        refused: () => {
          outcome = "refused";
        },
      });
      return () => {
        end();
        ended.push(outcome);
      };
    },
  });
  const body = envelope(new Uint8Array());
  for (const headers of [
    {},
    { name: "alice" },
    { name: "operator" },
    { "content-type": "text/plain" },
  ]) {
    await rawCall(listener, { path: list, body, headers }).catch(String);
  }
  await expect.poll(() => ended).toEqual(["refused", "refused", "accepted", "refused"]);
});

/** Calls from an address of this machine. */
function callingFrom({ url, host, port }: Address, localAddress: string): Transport {
  const createConnection = () => connectTcp({ host, port, localAddress });
  return createGrpcTransport({ baseUrl: url, nodeOptions: { createConnection } });
}

it("eight addresses without a credential cannot lock out servers, operators and health checks", async () => {
  await using served = await serveMatchmaker({
    authorize: byName,
    settings: { reservedCalls: 16 },
    routes: (router) =>
      router.service(Health, {
        check: () => ({ status: 1 }),
        async *watch() {
          yield { status: 1 };
          await new Promise(() => {});
        },
      }),
  });
  const leaving = new AbortController();
  const { signal } = leaving;
  try {
    for (let host = 2; host < 10; host++) {
      const { watch } = createClient(Health, callingFrom(served, `127.0.0.${host}`));
      const opened = async (): Promise<string> => {
        const answer = watch({}, { signal })[Symbol.asyncIterator]().next();
        return await answer.then(() => "open", String);
      };
      let open = 0;
      let outcome = await opened();
      for (; outcome === "open"; outcome = await opened()) {
        open += 1;
      }
      expect(outcome).toContain("[resource_exhausted] too many calls of health and reflection");
      expect(open).toBeGreaterThan(0);
      expect(open).toBeLessThanOrEqual(16);
    }
    const honest = callingFrom(served, "127.0.0.1");
    const operator = { headers: { name: "operator" } };
    await createClient(AdminService, honest).listServers({}, operator);
    await expect(
      createClient(RegistryService, honest).drainServer({ serverId: "none" }, operator),
    ).rejects.toSatisfy(refused(Code.NotFound, /register it first/));
    expect(await createClient(Health, honest).check({})).toMatchObject({ status: 1 });
  } finally {
    leaving.abort();
  }
});
