// SPDX-License-Identifier: Apache-2.0
import { timingSafeEqual, X509Certificate } from "node:crypto";
import { expect, it, vi } from "vitest";
import { makeCertificates, opensslMissing } from "../../../packages/server/testing/certificates.ts";
import { authorizeBy } from "./authorize.ts";

vi.mock("node:crypto", { spy: true });

const authorize = authorizeBy({
  operatorToken: "open-sesame",
  serverToken: "let-me-serve",
  serverTokens: new Map([["red-fleet", "red"]]),
  agentTokens: new Map([
    ...Array.from({ length: 1_000 }, (_, index) => [`token-${index}`, `agent-${index}`] as const),
    // The operator's token stays the operator's.
    ["open-sesame", "thief"],
  ]),
  authorities: new Map(),
});

const callerWith = (authorization?: string) =>
  authorize?.({
    address: "192.0.2.1:1",
    metadata: new Map(authorization === undefined ? [] : [["authorization", authorization]]),
    certificate: undefined,
  });

it.each([
  ["Bearer open-sesame", { roles: ["operator"], name: "operator token" }],
  ["Bearer let-me-serve", { roles: ["server"] }],
  ["Bearer red-fleet", { roles: ["server"], identity: "server token red" }],
  ["Bearer token-0", { roles: ["agent"], identity: "token agent-0" }],
  ["Bearer token-999", { roles: ["agent"], identity: "token agent-999" }],
  ["Bearer token-1000", undefined],
  ["token-0", undefined],
  ["", undefined],
  [undefined, undefined],
])("finds the caller of %j among a thousand with at most one comparison", (sent, caller) => {
  vi.mocked(timingSafeEqual).mockClear();
  expect(callerWith(sent)).toEqual(caller);
  expect(vi.mocked(timingSafeEqual).mock.calls.length).toBeLessThanOrEqual(1);
});

it.skipIf(opensslMissing() !== undefined).each([
  ["server", { roles: ["agent", "server"], identity: expect.stringMatching(/^certificate CN=/) }],
  ["agent", { roles: ["agent"], identity: expect.stringMatching(/^certificate CN=/) }],
  ["operator", { roles: ["operator"], name: expect.stringMatching(/^certificate CN=/) }],
] as const)("identifies each %s by the subject of its certificate", (role, caller) => {
  const { authority, operator } = makeCertificates();
  const byCertificate = authorizeBy({
    operatorToken: undefined,
    serverToken: undefined,
    serverTokens: undefined,
    agentTokens: undefined,
    authorities: new Map([[role, authority]]),
  });
  const certificate = new X509Certificate(operator.cert).raw;
  expect(byCertificate?.({ address: "192.0.2.1:1", metadata: new Map(), certificate })).toEqual(
    caller,
  );
});
