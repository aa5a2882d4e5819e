// SPDX-License-Identifier: Apache-2.0
import { isIP, isIPv4 } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { parseAddress } from "../stream/address.ts";
import { serving } from "../testing/serving.ts";
import { checkedHost } from "./checked-host.ts";
import { openConnectStream } from "./open-connect-stream.ts";
import { openStream } from "./open-stream.ts";

const refusal = new DmEnvRpcError("PERMISSION_DENIED", "not this address", { origin: "client" });
const refuse = (): void => {
  throw refusal;
};

describe.each([
  ["gRPC", openStream, "http"],
  ["a WebSocket", openStream, "ws"],
  ["Connect", openConnectStream, "http"],
] as const)("checkIp with %s", (_protocol, open, scheme) => {
  test.each(["localhost", "127.0.0.1"])(
    "receives the addresses of %s, and its error refuses the connection",
    async (host) => {
      await using server = await serving({ onStream: (stream) => stream.end() });
      const address = `${scheme}://${host}:${server.listener.port}`;
      const checked: string[] = [];
      const opened = await open(address, { checkIp: (ip) => checked.push(ip) });
      await opened.close();
      expect(checked).toContain("127.0.0.1");
      expect(checked.filter((ip) => isIP(ip) === 0)).toEqual([]);
      const error: unknown = await open(address, { checkIp: refuse }).catch((thrown) => thrown);
      expect(error).toBe(refusal);
      expect(server.errors).toEqual([]);
    },
  );
});

test("the checked lookup returns one address if node:net requests one", async () => {
  const { lookup } = checkedHost(parseAddress("localhost:1"), () => {});
  const found = await new Promise((resolve) => {
    lookup?.("localhost", { family: 4 }, (_error, address) => resolve(address));
  });
  expect(isIPv4(String(found))).toBe(true);
});

test("a host that cannot be resolved is unknown, whether it is checked or not", async () => {
  await expect(openStream("no-such-host.invalid:1", { checkIp: () => {} })).rejects.toThrow(
    /the host no-such-host\.invalid is unknown/,
  );
});
