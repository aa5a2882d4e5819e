// SPDX-License-Identifier: Apache-2.0

import { X509Certificate } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { WritePropertyRequestSchema } from "@dm-env-rpc/protocol";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { makeCertificates, opensslMissing } from "../../testing/certificates.ts";
import { networkPeer, serving } from "../../testing/network.ts";
import { isBlocked, Peer, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { property } from "../definition/property.ts";
import type { Role } from "../definition/roles.ts";
import type { Authorize } from "./authorize.ts";
import { createEnvironmentServer, type EnvironmentServer } from "./environment-server.ts";
import type { ServerEvent } from "./events.ts";

/** Grants the roles that the metadata lists. */
const byMetadata: Authorize = ({ metadata }) =>
  metadata.get("roles")?.split(" ").filter(Boolean) as Role[] | undefined;

function connectAs(server: EnvironmentServer, roles: string | undefined): Peer {
  const metadata = new Map(roles === undefined ? [] : [["roles", roles]]);
  const [client, stream] = memoryStreamPair({ metadata });
  server.accept(stream);
  return new Peer(client);
}

describe("authorize", () => {
  it("grants an operator worlds and properties, and an agent its own steps", async () => {
    let volume = 1;
    await using server = createEnvironmentServer({
      worlds: [tally()],
      authorize: byMetadata,
      properties: {
        volume: property(t.int32(), {
          read: () => volume,
          write: (value) => {
            volume = value;
          },
        }),
      },
    });
    const [agent, operator] = [connectAs(server, "agent"), connectAs(server, "operator")];
    const write = (value: number) => ({
      case: "writeProperty" as const,
      value: create(WritePropertyRequestSchema, {
        properties: { volume: packTensor(tensor("int32", [], Int32Array.of(value))) },
      }),
    });
    await expect(agent.createWorld()).rejects.toThrow(
      /^7: cannot create a world: expected the role "operator", received "agent"/,
    );
    const world = await operator.createWorld();
    await expect(operator.join(world)).rejects.toThrow(
      /^7: cannot join a world: expected the role "agent"/,
    );
    await agent.join(world);
    await agent.step();
    await expect(agent.resetWorld(world)).rejects.toThrow(/^7: .*reset a world.*"operator"/);
    await expect(agent.destroyWorld(world)).rejects.toThrow(/^7: .*destroy a world.*"operator"/);
    expect(await agent.send(write(2))).toMatchObject({ case: "error", value: { code: 7 } });
    expect(await operator.send(write(3))).toMatchObject({ case: "writeProperty" });
    expect(volume).toBe(3);
    const { state } = await agent.step();
    expect(state).toBe("RUNNING");
    await agent.reset();
    await agent.leave();
    await operator.destroyWorld(world);
  });

  it("refuses in-band all requests that require a role to a connection without roles", async () => {
    await using server = createEnvironmentServer({ worlds: [tally()], authorize: byMetadata });
    const guest = connectAs(server, "");
    await expect(guest.createWorld()).rejects.toThrow(/^7: .* received none/);
    await expect(guest.reset()).rejects.toThrow(/^7: cannot reset: expected the role "agent"/);
    await guest.leave();
  });

  it("ends a stream that it refuses with UNAUTHENTICATED, without revealing the reason", async () => {
    const events: ServerEvent[] = [];
    await using server = createEnvironmentServer({
      worlds: [tally()],
      authorize: ({ metadata }) => {
        if (metadata.size > 0) {
          throw new Error("the password is swordfish");
        }
        return undefined;
      },
      onEvent: (event) => events.push(event),
    });
    const refused = await connectAs(server, undefined).closed;
    expect(refused).toMatchObject({
      code: "UNAUTHENTICATED",
      message: expect.stringMatching(/credentials/),
    });
    const failed = await connectAs(server, "any").closed;
    expect(failed).toMatchObject({ code: "UNAUTHENTICATED" });
    expect(String(failed)).not.toMatch(/swordfish/);
    expect(events).toMatchObject([
      { kind: "connection-refused", error: undefined },
      { kind: "connection-refused", error: { message: "the password is swordfish" } },
    ]);
    expect(server.sessionCount).toBe(0);
  });

  it.each([
    ["an object", {}],
    ["a word", "agent"],
    ["an unknown role", ["admin"]],
  ])("refuses every stream when it grants %s, with the reason", async (_what, granted) => {
    for (const later of [false, true]) {
      const events: ServerEvent[] = [];
      await using server = createEnvironmentServer({
        worlds: [tally()],
        authorize: () => (later ? Promise.resolve(granted) : granted) as never,
        onEvent: (event) => events.push(event),
      });
      expect(await connectAs(server, "any").closed).toMatchObject({ code: "UNAUTHENTICATED" });
      const message = expect.stringMatching(
        /list of "agent", "operator" and "spectator".*received/,
      );
      expect(events).toMatchObject([{ kind: "connection-refused", error: { message } }]);
    }
  });

  it("may return a promise, and no request is lost meanwhile", async () => {
    let decide: (roles: readonly Role[]) => void = () => {};
    await using server = createEnvironmentServer({
      worlds: [tally()],
      authorize: () =>
        new Promise<readonly Role[]>((resolve) => {
          decide = resolve;
        }),
    });
    const peer = connectAs(server, undefined);
    const world = peer.createWorld();
    expect(await isBlocked(world)).toBe(true);
    decide(["operator"]);
    expect(await world).toBe("tally-1");
  });

  it("has a time limit", async () => {
    const time = manualTime();
    await using server = createEnvironmentServer({
      worlds: [tally()],
      time,
      authorize: () => new Promise(() => {}),
      limits: { authorizeMs: 700, maxStreams: 1 },
    });
    const [stuck, second] = [connectAs(server, undefined), connectAs(server, undefined)];
    expect(await second.closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/limit: maxStreams/),
    });
    await quiet();
    time.advance(700);
    expect(await stuck.closed).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringMatching(/limit: authorizeMs/),
    });
    expect(time.timers).toBe(0);
  });
});

const missing = opensslMissing();
if (missing !== undefined) {
  process.stderr.write(`TLS is not tested: ${missing}\n`);
}

describe.skipIf(missing !== undefined)("TLS", () => {
  it("receives client certificates over TLS, and can tell callers apart by them", async () => {
    const certificates = makeCertificates();
    await using server = await serving({
      worlds: [tally()],
      tls: { ...certificates.server, ca: certificates.authority, clientCertificates: "required" },
      authorize: ({ certificate }) => {
        const { subject } = new X509Certificate(certificate ?? new Uint8Array());
        return [subject.replace("CN=", "") as Role];
      },
    });
    expect(server.url).toMatch(/^https:/);
    const ca = certificates.authority;
    await using operator = await networkPeer(server, { tls: { ca, ...certificates.operator } });
    const world = await operator.createWorld();
    await using agent = await networkPeer(server, { tls: { ca, ...certificates.agent } });
    await agent.join(world);
    expect((await agent.step()).state).toBe("RUNNING");
    await expect(agent.destroyWorld(world)).rejects.toThrow(/^7: /);
    await expect(networkPeer(server, { tls: { ca } })).rejects.toThrow();
    await expect(networkPeer(server, { tls: { ...certificates.agent } })).rejects.toThrow();
  });

  it("TLS needs no allowInsecure beyond loopback; plain text does", async () => {
    const { server: pair, authority } = makeCertificates();
    await using server = await serving({ worlds: [tally()], host: "0.0.0.0", tls: pair });
    const url = `https://127.0.0.1:${server.port}`;
    await using peer = await networkPeer({ url }, { tls: { ca: authority } });
    expect(await peer.createWorld()).toBe("tally-1");
    await expect(serving({ worlds: [tally()], host: "0.0.0.0" })).rejects.toThrow(
      /0\.0\.0\.0.*allowInsecure/,
    );
  });

  it("rejects at once if a certificate is invalid", async () => {
    const { server: pair } = makeCertificates();
    await expect(serving({ worlds: [tally()], tls: { ...pair, cert: "x" } })).rejects.toThrow(
      /certificate/,
    );
  });
});
