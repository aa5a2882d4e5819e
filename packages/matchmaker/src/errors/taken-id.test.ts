// SPDX-License-Identifier: Apache-2.0
import { createClient } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it } from "vitest";
import { serveCounting } from "../../testing/world-server.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import { isTakenId } from "./taken-id.ts";

it("a caller of each protocol can distinguish a taken server id from other refusals", async () => {
  await using served = await serveMatchmaker();
  await using registered = await serveCounting(served.url);
  await registered.registration.registered;
  const { serverId } = registered.registration;
  for (const transport of [
    createGrpcTransport({ baseUrl: served.url }),
    createGrpcWebTransport({ baseUrl: served.url, httpVersion: "1.1" }),
    createConnectTransport({ baseUrl: served.url, httpVersion: "1.1" }),
  ]) {
    const registry = createClient(RegistryService, transport);
    const refusal = (id: string) =>
      registry.renewServer({ serverId: id }).catch((error: unknown) => error);
    expect([isTakenId(await refusal(serverId)), isTakenId(await refusal("none"))]).toEqual([
      true,
      false,
    ]);
  }
});
