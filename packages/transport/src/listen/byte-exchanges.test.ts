// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:http2";
import { expect, test } from "vitest";
import { type PlainCall, plainCall } from "../testing/plain-call.ts";
import { frame } from "../testing/raw-call.ts";
import { type ByteExchange, http2Exchange } from "./byte-exchanges.ts";
import { RequestBytes } from "./requests/request-bytes.ts";

async function call(): Promise<PlainCall & { readonly exchange: ByteExchange }> {
  const opened = await plainCall();
  const { stream, headers } = opened;
  const counted = new RequestBytes(stream, { pieceBytes: 1, onGrowth() {}, onPiece() {} });
  const peer = { address: "here", metadata: new Map(), certificate: undefined };
  return { ...opened, exchange: http2Exchange(stream, headers, counted, peer, {}) };
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
