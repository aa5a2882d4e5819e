// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { describe, expect, test } from "vitest";
import { type Serving, serving } from "../testing/serving.ts";

const origin = "https://play.example.org";
const path = "/grpc.health.v1.Health/Check";

function healthy(): Promise<Serving> {
  return serving({
    allowedOrigins: [origin],
    routes: (router) =>
      router.service(Health, {
        check: () => ({ status: HealthCheckResponse_ServingStatus.SERVING }),
      }),
  });
}

describe("a page over HTTP/1.1 on the port of HTTP/2", () => {
  test.each([
    ["Connect", createConnectTransport],
    ["gRPC-Web", createGrpcWebTransport],
  ])("calls a unary service by %s", async (_protocol, createTransport) => {
    await using server = await healthy();
    const transport = createTransport({ baseUrl: `http://${server.address}`, httpVersion: "1.1" });
    const { status } = await createClient(Health, transport).check({});
    expect(status).toBe(HealthCheckResponse_ServingStatus.SERVING);
  });

  test("reads the response if its origin is allowed", async () => {
    await using server = await healthy();
    const call = (from: string): Promise<Response> =>
      fetch(`http://${server.address}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: from },
        body: "{}",
      });
    const allowed = await call(origin);
    expect(await allowed.json()).toEqual({ status: "SERVING" });
    expect(allowed.headers.get("access-control-allow-origin")).toBe(origin);
    expect(allowed.headers.get("access-control-expose-headers")).toMatch(
      /grpc-status.*retry-after/i,
    );
    expect(allowed.headers.get("vary")).toBe("origin");
    const other = await call("https://evil.example.org");
    expect(other.headers.get("access-control-allow-origin")).toBeNull();
    await other.body?.cancel();
  });

  test("receives a response to its preflight request", async () => {
    await using server = await healthy();
    const ask = (from: string): Promise<Response> =>
      fetch(`http://${server.address}${path}`, {
        method: "OPTIONS",
        headers: {
          origin: from,
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization,content-type,x-session",
        },
      });
    const allowed = await ask(origin);
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("access-control-allow-methods")).toContain("POST");
    expect(allowed.headers.get("access-control-allow-headers")).toContain("x-session");
    const refused = await ask("https://evil.example.org");
    expect(refused.headers.get("access-control-allow-methods")).toBeNull();
  });

  test("is refused above maxStreams", async () => {
    await using server = await serving({
      maxStreams: 1,
      routes: (router) =>
        router.service(Health, {
          check: () => ({ status: HealthCheckResponse_ServingStatus.SERVING }),
          async *watch(_request, { signal }) {
            yield { status: HealthCheckResponse_ServingStatus.SERVING };
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          },
        }),
    });
    const transport = createConnectTransport({
      baseUrl: `http://${server.address}`,
      httpVersion: "1.1",
    });
    const health = createClient(Health, transport);
    const controller = new AbortController();
    const watch = health.watch({}, { signal: controller.signal })[Symbol.asyncIterator]();
    await watch.next();
    const second = health.watch({})[Symbol.asyncIterator]();
    const error = await second.next().then(
      () => undefined,
      (thrown: unknown) => ConnectError.from(thrown),
    );
    expect(error?.code).toBe(Code.Unavailable); // From HTTP status 429.
    controller.abort();
    await watch.next().catch(() => {});
  });
});
