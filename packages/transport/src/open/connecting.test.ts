// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { errorOf } from "../testing/error-of.ts";
import { openConnectStream } from "./open-connect-stream.ts";
import type { OpenOptions } from "./open-options.ts";
import { openStream as openInPage } from "./open-page-stream.ts";
import { openStream } from "./open-stream.ts";
import type { OpenedStream } from "./opened-stream.ts";

type Open = (authority: string, options: OpenOptions) => Promise<OpenedStream>;

const opens: [string, Open][] = [
  ["gRPC", openStream],
  ["Connect", openConnectStream],
  ["a WebSocket", (authority, options) => openStream(`ws://${authority}`, options)],
  ["a page's WebSocket", (authority, options) => openInPage(`ws://${authority}`, options)],
];

/** Starts a server that accepts connections and never sends a byte. */
async function silentServer(): Promise<{
  address: string;
  next: Promise<Socket>;
  sockets: readonly Socket[];
}> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {}).resume();
  });
  const next = once(server, "connection").then(([socket]): Socket => socket);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, next, sockets };
}

test.each(opens)(
  "a connection over %s that is not answered in time fails, and is closed",
  async (_name, open) => {
    const { address, next } = await silentServer();
    const opening = open(address, { connectTimeoutMs: 50 }).catch((thrown: unknown) => thrown);
    const socket = await next;
    const error = errorOf(await opening);
    expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED", origin: "connection" });
    expect(error.message).toBe(
      `${address} did not answer within 50 ms; check the address, or raise connectTimeoutMs`,
    );
    await closed(socket);
  },
);

test.each(opens)(
  "a connection over %s that its signal aborts fails, and is closed",
  async (_name, open) => {
    const { address, next } = await silentServer();
    const controller = new AbortController();
    const opening = open(address, { signal: controller.signal }).catch((thrown: unknown) => thrown);
    const socket = await next;
    controller.abort(new Error("changed my mind"));
    const error = errorOf(await opening);
    expect(error).toMatchObject({ code: "CANCELLED", origin: "client" });
    expect(error.cause).toBe(controller.signal.reason);
    await closed(socket);
  },
);

test.each(opens)(
  "if the signal is already aborted, no connection is opened over %s",
  async (_name, open) => {
    const { address, next, sockets } = await silentServer();
    const signal = AbortSignal.abort();
    const error = errorOf(await open(address, { signal }).catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ code: "CANCELLED", origin: "client" });
    // Connections are accepted in order, so an unwanted connection would arrive first.
    const opening = open(address, { connectTimeoutMs: 50 }).catch((thrown: unknown) => thrown);
    await next;
    await opening;
    expect(sockets).toHaveLength(1);
  },
);

async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) {
    await once(socket, "close");
  }
}
