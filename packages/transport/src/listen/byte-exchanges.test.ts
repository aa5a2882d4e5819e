// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import {
  connect,
  constants,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { frame } from "../testing/raw-call.ts";
import { type ByteExchange, http2Exchange } from "./byte-exchanges.ts";
import { RequestBytes } from "./requests/request-bytes.ts";

/** Opens a call over plain node:http2. */
async function call() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    session.destroy();
    server.close();
  });
  const client = session.request({ ":method": "POST" }, { endStream: false });
  client.on("error", () => {});
  const [stream, headers] = (await once(server, "stream")) as [
    ServerHttp2Stream,
    IncomingHttpHeaders,
  ];
  stream.on("error", () => {});
  const counted = new RequestBytes(stream, { pieceBytes: 1, onGrowth() {}, onPiece() {} });
  const peer = { address: "here", metadata: new Map(), certificate: undefined };
  const exchange: ByteExchange = http2Exchange(stream, headers, counted, peer, {});
  return { client, stream, exchange };
}

test("a request is read when its body has ended", async () => {
  const { client, exchange } = await call();
  client.end(frame(Buffer.from("hello")));
  expect(String(await exchange.read(100))).toBe("hello");
  expect(exchange.isGone).toBe(false);
});

test("a request whose caller resets it is not read, although the reset also ends its body", async () => {
  const { client, exchange } = await call();
  const read = exchange.read(100_000);
  client.write(frame(Buffer.alloc(50_000)));
  client.write(Buffer.alloc(1));
  client.close(constants.NGHTTP2_CANCEL);
  await expect(read).rejects.toMatchObject({ code: "CANCELLED" });
  expect(exchange.isGone).toBe(true);
});

test("a request that a limit has refused is not read, and its responses are dropped", async () => {
  const { client, stream, exchange } = await call();
  const read = exchange.read(100);
  stream.respond({ ":status": 200 }, { endStream: true });
  client.end(frame(Buffer.from("hello")));
  await expect(read).rejects.toMatchObject({ code: "CANCELLED" });
  expect(exchange.isGone).toBe(true);
  expect(exchange.send(Buffer.from("late"))).toBe(true);
});
