// SPDX-License-Identifier: Apache-2.0

import { X509Certificate } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponseSchema } from "@dm-env-rpc/protocol/health";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import type { ListenOptions } from "../listen/listen-options.ts";
import { authority, clientPair, expiredPair, serverPair } from "../testing/certificates.ts";
import { errorOf } from "../testing/error-of.ts";
import { answerOf, named } from "../testing/messages.ts";
import { record } from "../testing/recorder.ts";
import { echo, type Serving, serving } from "../testing/serving.ts";
import { openConnectStream } from "./open-connect-stream.ts";
import type { OpenOptions } from "./open-options.ts";
import { openStream } from "./open-stream.ts";
import type { OpenedStream } from "./opened-stream.ts";

const secure = (server: Serving): string => `https://${server.address}`;

const health: Partial<ListenOptions> = {
  routes: (router) => {
    router.rpc(Health.method.check, () => create(HealthCheckResponseSchema, { status: 1 }));
  },
};

/** Opens and closes a stream; returns the error of either. */
async function failureOf(opening: Promise<OpenedStream>): Promise<DmEnvRpcError> {
  const error = await opening.then(
    (stream) => record(stream).closed,
    (thrown: unknown) => thrown,
  );
  return errorOf(error);
}

test.each([
  ["gRPC", openStream],
  ["Connect", openConnectStream],
])("a stream over TLS with %s works like one in plain text", async (_protocol, open) => {
  await using server = await serving({ tls: serverPair });
  expect(server.listener.url).toMatch(/^https:/);
  await using stream = await open(secure(server), { tls: { ca: authority } });
  const client = record(stream);
  const accepted = await server.next();
  echo(accepted);
  stream.send(named("secret"));
  stream.end();
  expect(await client.closed).toBeUndefined();
  expect(client.messages.map(answerOf)).toEqual(["secret"]);
  expect(accepted.peer.certificate).toBeUndefined();
});

test("a certificate of an unknown authority is refused with the remedy", async () => {
  await using server = await serving({ tls: serverPair });
  const error = await failureOf(openStream(secure(server)));
  expect(error.code).toBe("UNAVAILABLE");
  expect(error.message).toMatch(/is not trusted .*; pass the authority that signed it as tls.ca/);
});

test.each(["https", "wss"])(
  "an expired certificate is refused with the remedy over %s",
  async (scheme) => {
    await using server = await serving({ tls: expiredPair });
    const tls = { ca: expiredPair.cert };
    const error = await failureOf(openStream(`${scheme}://${server.address}`, { tls }));
    expect(error.message).toBe(
      `the certificate of ${server.address} is not valid at this time (CERT_HAS_EXPIRED); renew it on the server, or check the clocks of both machines`,
    );
  },
);

test("a certificate for another name is refused with the remedy", async () => {
  await using server = await serving({ tls: serverPair });
  const tls = { ca: authority, serverName: "example.org" };
  const error = await failureOf(openStream(secure(server), { tls }));
  expect(error.message).toContain("is for another name");
});

test("the server sees the certificate of a client that presents one", async () => {
  for (const clientCertificates of ["optional", "required"] as const) {
    await using server = await serving({
      tls: { ...serverPair, ca: authority, clientCertificates },
    });
    const options: OpenOptions = { tls: { ca: authority, ...clientPair } };
    for (const open of [openStream, openConnectStream]) {
      await using stream = await open(secure(server), options);
      const accepted = await server.next();
      const { certificate } = accepted.peer;
      expect(new X509Certificate(certificate ?? "").subject).toBe("CN=client");
      record(stream);
      record(accepted);
    }
  }
});

test.each(["https", "wss"])(
  "a client without a required certificate is refused over %s",
  async (scheme) => {
    await using server = await serving({
      tls: { ...serverPair, ca: authority, clientCertificates: "required" },
    });
    const url = `${scheme}://${server.address}`;
    const error = await failureOf(openStream(url, { tls: { ca: authority } }));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toMatch(/requires a client certificate|server on/);
  },
);

test("an optional certificate that does not verify is ignored", async () => {
  await using server = await serving({ tls: { ...serverPair, clientCertificates: "optional" } });
  await using stream = await openStream(secure(server), {
    tls: { ca: authority, ...clientPair },
  });
  const accepted = await server.next();
  expect(accepted.peer.certificate).toBeUndefined();
  record(stream);
  record(accepted);
});

test.each(["1.1", "2"] as const)("routes are served over TLS and HTTP/%s", async (httpVersion) => {
  await using server = await serving({ tls: serverPair, ...health });
  const transport = createConnectTransport({
    baseUrl: secure(server),
    httpVersion,
    nodeOptions: { ca: authority },
  });
  const answer = await createClient(Health, transport).check({});
  expect(answer.status).toBe(1);
  expect(server.errors).toEqual([]);
});

interface Certificates {
  readonly ca?: string | Buffer | string[];
  readonly cert?: string;
  readonly key?: string;
}

/** Options with a fault, and how the error begins. */
const faulty: readonly [string, Certificates, string][] = [
  ["no certificate", { ...clientPair, cert: "none" }, "option tls.cert: expected a certificate"],
  ["no key", { ...clientPair, key: "none" }, "option tls.key: expected a private key in PEM"],
  ["an empty key", { ...clientPair, key: "" }, "option tls.key: expected a private key in PEM"],
  [
    "another certificate's key",
    { cert: clientPair.cert, key: serverPair.key },
    "options tls.cert and tls.key: expected a certificate and its private key",
  ],
  ["no authority", { ca: "none" }, "option tls.ca: expected certificates in PEM, received no "],
  [
    "an authority in DER",
    { ca: new X509Certificate(authority).raw },
    "option tls.ca: expected certificates in PEM, received no certificate",
  ],
  [
    "a truncated second authority",
    { ca: [`${authority}\n${authority.slice(0, 300)}`] },
    "option tls.ca: expected certificates in PEM, received error:",
  ],
];

test.each(faulty)("%s is refused before a client connects", async (_fault, tls, begin) => {
  for (const [open, scheme] of [
    [openStream, "https"],
    [openConnectStream, "https"],
    [openStream, "wss"],
  ] as const) {
    const error = await failureOf(open(`${scheme}://localhost:1`, { tls }));
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT", origin: "client" });
    expect(error.message.startsWith(begin), error.message).toBe(true);
  }
});

test.each(faulty)("%s is refused before a server listens", async (_fault, tls, begin) => {
  const error = errorOf(await serving({ tls: { ...serverPair, ...tls } }).catch((e) => e));
  expect(error.code).toBe("INVALID_ARGUMENT");
  expect(error.message.startsWith(begin), error.message).toBe(true);
});

test("a chain of authorities and a file with certificate and key are accepted", async () => {
  const both = `${serverPair.cert}\n${serverPair.key}\n`;
  await using server = await serving({ tls: { cert: both, key: both } });
  const ca = Buffer.from(`# authorities\n${expiredPair.cert}\n${authority}\n`);
  await using stream = await openStream(secure(server), { tls: { ca } });
  record(stream);
  record(await server.next());
});
