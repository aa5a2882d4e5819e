// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { packStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, test } from "vitest";
import { carriers } from "../testing/carriers.ts";
import { errorOf } from "../testing/error-of.ts";
import {
  answered,
  answerOf,
  named,
  nameOf,
  stepRequest,
  stepResponse,
} from "../testing/messages.ts";
import { bytesOf } from "../testing/raw-call.ts";
import { record } from "../testing/recorder.ts";
import { echo } from "../testing/serving.ts";
import type { UnreadMessage } from "./message-stream.ts";

describe.each(carriers)("behaviour 74: a stream over %s", (_name, open) => {
  test("behaviour 3: requests in flight are answered in order", async () => {
    await using pair = await open();
    const client = record(pair.client);
    echo(pair.server);
    const names = Array.from({ length: 500 }, (_, i) => `world ${i}`);
    for (const name of names) {
      pair.client.send(named(name));
    }
    await client.seen("message", names.length);
    expect(client.messages.map(answerOf)).toEqual(names);
  });

  test("a receiver with takesUnread receives undecoded messages", async () => {
    await using pair = await open();
    const waiting: UnreadMessage<ProcessRequest>[] = [];
    const decoded: unknown[] = [];
    const ended = new Promise<void>((resolve) =>
      pair.server.start({
        takesUnread: true,
        onUnread: (message) => waiting.push(message),
        onMessage: (message) => decoded.push(message),
        onEnd: resolve,
        onDrain() {},
        onClose() {},
      }),
    );
    const client = record(pair.client);
    const sent = [named("a"), stepRequest(200_000, 3), named("b"), stepRequest(10, 5)];
    for (const message of sent) {
      pair.client.send(message);
    }
    pair.client.end();
    await ended;
    expect(decoded).toEqual([]);
    expect(waiting.map(({ size }) => size)).toEqual(sent.map((request) => bytesOf(request).length));
    expect(waiting.map((message) => message.read())).toEqual(sent);
    pair.server.end();
    await client.closed;
  });

  test("behaviour 8: after a half-close all requests are answered, then the stream closes without an error", async () => {
    await using pair = await open();
    const client = record(pair.client);
    const server = echo(pair.server);
    for (let i = 0; i < 20; i++) {
      pair.client.send(named(`world ${i}`));
    }
    pair.client.end();
    expect(await client.closed).toBeUndefined();
    expect(await server.closed).toBeUndefined();
    expect(client.messages).toHaveLength(20);
    expect(client.events.slice(-2)).toEqual(["end", "close"]);
    expect(server.events.slice(-2)).toEqual(["end", "close"]);
  });

  test("behaviour 8: an abort of the client is an error at the server, not an end", async () => {
    await using pair = await open();
    const client = record(pair.client);
    const server = record(pair.server);
    pair.client.send(named("first"));
    await server.seen("message");
    pair.client.abort(new DmEnvRpcError("CANCELLED", "enough"));
    const error = errorOf(await server.closed);
    expect(error.code).toBe("CANCELLED");
    expect(server.events).toEqual(["message", "close"]);
    expect((await client.closed)?.message).toContain("enough");
  });

  test("an abort of the server reaches the client with its code and its message", async () => {
    await using pair = await open();
    const client = record(pair.client);
    const server = record(pair.server);
    pair.client.send(named("first"));
    await server.seen("message");
    pair.server.abort(new DmEnvRpcError("RESOURCE_EXHAUSTED", "the world's on fire: 100 % é"));
    const error = errorOf(await client.closed);
    expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED", origin: "server" });
    expect(error.message).toBe("the world's on fire: 100 % é");
    expect(client.events).toEqual(["close"]);
    expect((await server.closed)?.message).toContain("on fire");
  });

  test("a server's end ends the call for both sides", async () => {
    await using pair = await open();
    const client = record(pair.client);
    const server = record(pair.server);
    pair.server.send(answered("goodbye"));
    pair.server.end();
    expect(await client.closed).toBeUndefined();
    expect(await server.closed).toBeUndefined();
    expect(client.events).toEqual(["message", "end", "close"]);
    expect(pair.client.send(named("too late"))).toBe(true);
    expect(pair.server.send(answered("too late"))).toBe(true);
  });

  test("an end with a status delivers all sent messages, then the status", async () => {
    await using pair = await open();
    const client = record(pair.client, { onMessage: () => pair.client.pause() });
    const server = record(pair.server);
    const names = Array.from({ length: 500 }, (_, i) => `world ${i}`);
    for (const name of names) {
      pair.server.send(answered(name));
    }
    const status = new DmEnvRpcError("UNAVAILABLE", "the server is shutting down");
    pair.server.end(status);
    for (let seen = 1; seen <= names.length; seen++) {
      await client.seen("message", seen);
      pair.client.resume();
    }
    const error = errorOf(await client.closed);
    expect([error.code, error.message]).toEqual([status.code, status.message]);
    expect(client.messages.map(answerOf)).toEqual(names);
    expect(client.events).not.toContain("end");
    expect(errorOf(await server.closed)).toMatchObject({ code: status.code });
  });

  test("a server that has ended receives only the close", async () => {
    await using pair = await open();
    record(pair.client);
    const server = record(pair.server, { onMessage: () => pair.server.end() });
    for (let i = 0; i < 100; i++) {
      pair.client.send(named(`world ${i}`));
    }
    expect(await server.closed).toBeUndefined();
    expect(server.events).toEqual(["message", "close"]);
  });

  test("no message is delivered before start, and no message is lost", async () => {
    await using pair = await open();
    const client = record(pair.client);
    pair.client.send(named("first"));
    pair.client.send(named("second"));
    pair.client.end();
    await new Promise((resolve) => setImmediate(resolve));
    const server = echo(pair.server);
    expect(await client.closed).toBeUndefined();
    expect(server.messages.map(nameOf)).toEqual(["first", "second"]);
  });

  test("a stream that has closed before start reports the close after start", async () => {
    await using pair = await open();
    pair.client.abort(new DmEnvRpcError("CANCELLED", "never mind"));
    const client = record(pair.client);
    expect((await client.closed)?.message).toContain("never mind");
    const server = record(pair.server);
    expect(await server.closed).toBeInstanceOf(DmEnvRpcError);
    expect(() => record(pair.server)).toThrow("already started");
  });

  test("a pause holds back the very next message, and resume delivers it in a later turn", async () => {
    await using pair = await open();
    record(pair.client);
    let inResume = false;
    const server = record(pair.server, {
      onMessage: () => {
        expect(inResume).toBe(false);
        pair.server.pause();
      },
    });
    for (let i = 0; i < 300; i++) {
      pair.client.send(named(`world ${i}`));
    }
    for (let i = 1; i <= 300; i++) {
      await server.seen("message", i);
      expect(server.messages).toHaveLength(i);
      inResume = true;
      pair.server.resume();
      inResume = false;
      expect(server.messages).toHaveLength(i);
    }
    expect(server.messages.map(nameOf)).toEqual(
      Array.from({ length: 300 }, (_, i) => `world ${i}`),
    );
  });

  test("behaviour 8: an abort is reported while the stream is paused and messages are unread", async () => {
    await using pair = await open();
    record(pair.client);
    const server = record(pair.server, { onMessage: () => pair.server.pause() });
    for (let i = 0; i < 100; i++) {
      pair.client.send(named(`world ${i}`));
    }
    await server.seen("message");
    pair.client.abort(new DmEnvRpcError("CANCELLED", "gone"));
    expect(await server.closed).toBeInstanceOf(DmEnvRpcError);
    expect(server.events).toEqual(["message", "close"]);
  });

  test("a half-close waits behind the messages that a pause holds back", async () => {
    await using pair = await open();
    const client = record(pair.client);
    let paused = 0;
    const server = record(pair.server, {
      onMessage: () => {
        paused += 1;
        pair.server.pause();
        setImmediate(() => pair.server.resume());
      },
      onEnd: () => pair.server.end(),
    });
    for (let i = 0; i < 10; i++) {
      pair.client.send(named(`world ${i}`));
    }
    pair.client.end();
    expect(await client.closed).toBeUndefined();
    expect(await server.closed).toBeUndefined();
    expect(paused).toBe(10);
    expect(server.events.slice(-2)).toEqual(["end", "close"]);
  });

  test("a call that ended normally keeps the messages that a paused reader has not read", async () => {
    await using pair = await open();
    const client = record(pair.client, { onMessage: () => pair.client.pause() });
    // More than the stream itself buffers, so that some of it waits in the layers below.
    for (let i = 0; i < 100; i++) {
      pair.server.send(stepResponse(10_000));
    }
    pair.server.end();
    record(pair.server);
    await client.seen("message");
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    for (let i = 1; i < 100; i++) {
      pair.client.resume();
      await client.seen("message", i + 1);
    }
    expect(client.events).not.toContain("end");
    pair.client.resume();
    expect(await client.closed).toBeUndefined();
    expect(client.events.slice(-2)).toEqual(["end", "close"]);
  });

  test("a reader that pauses at every message does not stop other streams", async () => {
    await using pair = await open();
    record(pair.client);
    let longest = 0;
    let inTurn = 0;
    const server = record(pair.server, {
      onMessage: () => {
        inTurn += 1;
        longest = Math.max(longest, inTurn);
        pair.server.pause();
        queueMicrotask(() => pair.server.resume());
      },
    });
    for (let i = 0; i < 3_000; i++) {
      pair.client.send(named(`world ${i}`));
    }
    const turn = (): void => {
      inTurn = 0;
      if (server.messages.length < 3_000) {
        setImmediate(turn);
      }
    };
    turn();
    await server.seen("message", 3_000);
    expect(longest).toBeLessThan(1_000);
  });

  test("send returns false for a slow reader, and onDrain reports when to continue", async () => {
    await using pair = await open();
    const server = record(pair.server);
    pair.server.pause();
    const client = record(pair.client);
    let sent = 0;
    // Far beyond the windows and buffers of every layer.
    while (sent < 2_000 && pair.client.send(stepRequest(16_000, sent % 251))) {
      sent += 1;
      if (sent % 8 === 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    expect(sent).toBeLessThan(1_000);
    expect(client.events).toEqual([]);
    pair.server.resume();
    await client.seen("drain");
    await server.seen("message", sent + 1);
    const fills = server.messages.map((message) =>
      message.case === "step" ? message.value.actions[0]?.tensor.data[0] : undefined,
    );
    expect(fills).toEqual(Array.from({ length: sent + 1 }, (_, i) => i % 251));
  });

  test("large messages arrive unchanged", async () => {
    await using pair = await open();
    const client = record(pair.client);
    echo(pair.server);
    const sizes = [1, 4_095, 16_384, 65_531, 65_536, 300_000, 1_000_000, 15_000_000];
    for (const [i, size] of sizes.entries()) {
      pair.client.send(stepRequest(size, i + 1));
    }
    await client.seen("message", sizes.length);
    for (const [i, message] of client.messages.entries()) {
      const data = message.case === "step" ? message.value.observations[0]?.tensor.data : undefined;
      expect(Buffer.compare(new Uint8Array(sizes[i] ?? 0).fill(i + 1), data as Uint8Array)).toBe(0);
    }
  });

  test("behaviour 6: a message above maxMessageBytes is answered in its turn, then the stream ends", async () => {
    await using pair = await open({ maxMessageBytes: 1_000 });
    const client = record(pair.client);
    const server = record(pair.server);
    pair.client.send(stepRequest(900));
    pair.client.send(stepRequest(100_000));
    pair.client.send(named("dropped"));
    await server.seen("end");
    expect(server.messages.map((message) => message.case)).toEqual(["step", "malformed"]);
    const tooLarge = errorOf(server.messages[1]?.value);
    expect(tooLarge.code).toBe("RESOURCE_EXHAUSTED");
    expect(tooLarge.message).toMatch(
      /at most 1000 bytes, received (\d+ bytes|more); send less .*\(limit: maxMessageBytes\)/,
    );
    pair.server.send(answered("first"));
    pair.server.send({ case: "error", value: packStatus(tooLarge) });
    pair.server.end();
    const status = errorOf(await client.closed);
    expect(client.events).toEqual(["message", "message", "close"]);
    expect(client.messages.map((message) => message.case)).toEqual(["createWorld", "error"]);
    expect(status).toMatchObject({ code: "RESOURCE_EXHAUSTED", message: tooLarge.message });
    expect(await server.closed).toBe(tooLarge);
    expect(server.messages).toHaveLength(2);
  });

  test("a message above maxMessageBytes waits for a receiver that has paused", async () => {
    await using pair = await open({ maxMessageBytes: 1_000 });
    const client = record(pair.client);
    const server = record(pair.server, { onMessage: () => pair.server.pause() });
    pair.client.send(stepRequest(900));
    pair.client.send(stepRequest(100_000));
    await server.seen("message");
    pair.server.send(answered("first"));
    await client.seen("message");
    expect(server.events).toEqual(["message"]);
    pair.server.resume();
    await server.seen("end");
    expect(server.messages.map((message) => message.case)).toEqual(["step", "malformed"]);
    pair.server.end();
    expect(errorOf(await client.closed).code).toBe("RESOURCE_EXHAUSTED");
  });

  test("a response above the client's maxMessageBytes is an error that names the limit", async () => {
    await using pair = await open({ maxResponseBytes: 1_000 });
    const client = record(pair.client);
    const server = record(pair.server);
    pair.client.send(named("first"));
    await server.seen("message");
    pair.server.send(answered("first"));
    await client.seen("message");
    pair.server.send(stepResponse(100_000));
    const error = errorOf(await client.closed);
    expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED", origin: "client" });
    expect(error.message).toMatch(
      /at most 1000 bytes, received (\d+ bytes|more); request fewer .*\(limit: maxMessageBytes\)/,
    );
    expect(client.messages.map(answerOf)).toEqual(["first"]);
    expect(await server.closed).toBeInstanceOf(Error);
  });

  test("a message that cannot be encoded throws, and the stream continues", async () => {
    await using pair = await open();
    const client = record(pair.client);
    echo(pair.server);
    const wrong = { case: "step", value: { actions: [{ uid: 1 }] } } as unknown;
    expect(() => pair.client.send(wrong as ReturnType<typeof named>)).toThrow();
    pair.client.send(named("still here"));
    await client.seen("message");
    expect(client.messages.map(answerOf)).toEqual(["still here"]);
  });

  test("the server sees the metadata and the address of the caller", async () => {
    await using pair = await open({ metadata: new Map([["x-agent", "seven"]]) });
    expect(pair.server.peer.metadata.get("x-agent")).toBe("seven");
    expect([...pair.server.peer.metadata.keys()]).not.toContain("te");
    expect(pair.server.peer.address).toMatch(/^(memory|127\.0\.0\.1:\d+)$/);
    expect(pair.server.peer.certificate).toBeUndefined();
    record(pair.server);
    record(pair.client);
  });
});
