// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { createServer as createHttp1 } from "node:http";
import { constants, createServer as createHttp2, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { serverPair } from "../testing/certificates.ts";
import { errorOf } from "../testing/error-of.ts";
import { record } from "../testing/recorder.ts";
import { serving } from "../testing/serving.ts";
import { openConnectStream } from "./open-connect-stream.ts";
import { openStream } from "./open-stream.ts";

interface Foreign extends AsyncDisposable {
  readonly address: string;
}

/** Starts a server that does not speak our protocol. */
async function foreign(server: Server): Promise<Foreign> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) {
        socket.destroy();
      }
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function failureOf(opening: Promise<unknown>): Promise<DmEnvRpcError> {
  const error = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(DmEnvRpcError);
  return errorOf(error);
}

describe.each([
  ["gRPC", openStream],
  ["Connect", openConnectStream],
])("opening a stream with %s", (_protocol, open) => {
  test("fails if no server listens", async () => {
    const closed = await foreign(createTcp());
    await closed[Symbol.asyncDispose]();
    const error = await failureOf(open(closed.address));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toBe(
      `no server listens on ${closed.address}; start the server or check the address`,
    );
  });

  test("fails on a host that does not exist", async () => {
    const error = await failureOf(open("no-such-host.invalid:8980"));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain("the host no-such-host.invalid is unknown");
  });

  test("fails on a server that speaks HTTP/1.1", async () => {
    await using other = await foreign(createHttp1((_request, response) => response.end("hello")));
    const error = await failureOf(open(other.address));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain(`expected an HTTP/2 server on ${other.address}`);
    expect(error.message).toContain("https://");
  });

  test("fails on a server that closes the connection", async () => {
    await using other = await foreign(createTcp((socket) => socket.destroy()));
    const error = await failureOf(open(other.address));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
  });

  test("fails in plain text on a server with TLS", async () => {
    await using server = await serving({ tls: serverPair });
    const error = await failureOf(open(server.address));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain(`use https://${server.address} if it serves TLS`);
  });

  test("fails with TLS on a server of plain text", async () => {
    await using server = await serving();
    const error = await failureOf(open(`https://${server.address}`));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toMatch(/expected (TLS|an HTTP\/2 server) on/);
  });

  test("refuses metadata that cannot be sent", async () => {
    for (const metadata of [{ "Upper-Case": "x" }, { "grpc-x": "y" }, { name: "naïve" }]) {
      const error = await failureOf(open("127.0.0.1:1", { metadata }));
      expect(error).toMatchObject({ code: "INVALID_ARGUMENT", origin: "client" });
    }
  });
});

describe("opening a WebSocket", () => {
  test("fails with TLS on a server of plain text, and suggests ws://", async () => {
    await using other = await foreign(createTcp((socket) => socket.end("HTTP/1.1 400\r\n\r\n")));
    const error = await failureOf(openStream(`wss://${other.address}`));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toBe(
      `expected TLS on ${other.address}, received plain text; use ws://${other.address} if the server has no TLS`,
    );
  });

  test("fails in plain text on a server with TLS, and suggests wss://", async () => {
    await using server = await serving({ tls: serverPair });
    const error = await failureOf(openStream(`ws://${server.address}`));
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain(`expected a WebSocket server on ${server.address}, received: `);
    expect(error.message).toContain(
      `; check the address, and use wss://${server.address} if it serves TLS`,
    );
  });

  test("with TLS fails on a server that closes the connection, without a remedy for plain text", async () => {
    await using other = await foreign(createTcp((socket) => socket.destroy()));
    const error = await failureOf(openStream(`wss://${other.address}`));
    expect(error.message).toMatch(
      /^expected a WebSocket server on \S+, received: .*; check the address$/,
    );
  });
});

describe("a server of another kind", () => {
  async function http2(onStream: (stream: ServerHttp2Stream) => void): Promise<Foreign> {
    const server = createHttp2();
    server.on("stream", (stream) => {
      stream.on("error", () => {});
      onStream(stream);
    });
    return foreign(server);
  }

  test("that answers plain HTTP is named in the error", async () => {
    await using other = await http2((stream) => {
      stream.respond({ ":status": 404, "content-type": "text/html" });
      stream.end("<h1>not found</h1>");
    });
    await using stream = await openStream(other.address);
    const error = errorOf(await record(stream).closed);
    expect(error).toMatchObject({ code: "UNIMPLEMENTED", origin: "connection" });
    expect(error.message).toContain(
      `expected a gRPC server at ${other.address}, received HTTP 404`,
    );
  });

  test("that answers with only trailers causes the error of the trailers", async () => {
    await using other = await http2((stream) => {
      stream.respond(
        {
          ":status": 200,
          "content-type": "application/grpc",
          "grpc-status": "7",
          "grpc-message": "not%20you%3A%20%C3%A9%",
        },
        { endStream: true },
      );
    });
    await using stream = await openStream(other.address);
    const client = record(stream);
    const error = errorOf(await client.closed);
    expect(error).toMatchObject({ code: "PERMISSION_DENIED", origin: "server" });
    expect(error.message).toContain("not");
    expect(client.events).toEqual(["close"]);
  });

  test("that ends the call without trailers is reported as UNAVAILABLE", async () => {
    await using other = await http2((stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.end();
    });
    await using stream = await openStream(other.address);
    const error = errorOf(await record(stream).closed);
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain("grpc-status");
  });

  test("that resets the call is reported with the status of the reset", async () => {
    await using other = await http2((stream) => stream.close(7));
    await using stream = await openStream(other.address);
    const error = errorOf(await record(stream).closed);
    expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
    expect(error.message).toContain("REFUSED_STREAM");
  });

  test("that dies is reported as a lost connection, even while the stream is paused or after a half-close", async () => {
    for (const [paused, ended] of [
      [false, false],
      [true, false],
      [false, true],
      [true, true],
    ]) {
      const streams: ServerHttp2Stream[] = [];
      await using other = await http2((stream) => {
        stream.respond({ ":status": 200, "content-type": "application/grpc" });
        stream.write(Buffer.alloc(300_000)); // Sixty thousand empty messages.
        streams.push(stream);
      });
      await using stream = await openStream(other.address);
      const client = record(stream, { onMessage: () => paused && stream.pause() });
      if (ended) {
        stream.end();
      }
      await client.seen("message");
      streams[0]?.session?.destroy();
      const error = errorOf(await client.closed);
      expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
      expect(client.events).not.toContain("end");
    }
  });

  test("that resets without an error right after its trailers loses no message", async () => {
    await using other = await http2((stream) => {
      stream.respond(
        { ":status": 200, "content-type": "application/grpc" },
        { waitForTrailers: true },
      );
      stream.on("wantTrailers", () => {
        stream.sendTrailers({ "grpc-status": "0" });
        setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
      });
      stream.end(Buffer.alloc(500_000)); // A hundred thousand empty messages.
    });
    await using stream = await openStream(other.address);
    const client = record(stream, {
      onMessage: () => {
        if (client.messages.length % 1_000 === 0) {
          stream.pause();
          setImmediate(() => stream.resume());
        }
      },
    });
    expect(await client.closed).toBeUndefined();
    expect(client.messages).toHaveLength(100_000);
  });

  test("sees a cancelled call as a reset, with no half-close before it", async () => {
    const events: string[] = [];
    const streams: ServerHttp2Stream[] = [];
    await using other = await http2((stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.on("end", () => events.push("end"));
      stream.on("aborted", () => events.push("aborted"));
      stream.resume();
      streams.push(stream);
    });
    await using stream = await openStream(other.address);
    const client = record(stream);
    while (streams.length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    stream.abort(new DmEnvRpcError("CANCELLED", "never mind"));
    await client.closed;
    while (streams[0]?.closed === false) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(events[0]).toBe("aborted");
    expect(streams[0]?.rstCode).toBe(constants.NGHTTP2_CANCEL);
  });

  test("that sends a GOAWAY still lets the call continue to its end", async () => {
    const streams: ServerHttp2Stream[] = [];
    await using other = await http2((stream) => {
      stream.respond(
        { ":status": 200, "content-type": "application/grpc" },
        { waitForTrailers: true },
      );
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.resume();
      stream.on("end", () => stream.end(Buffer.alloc(5)));
      streams.push(stream);
    });
    await using stream = await openStream(other.address);
    const client = record(stream);
    while (streams.length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    // The client also opens both windows to 4 MiB.
    while ((streams[0]?.session?.state.remoteWindowSize ?? 0) < 4 * 1024 * 1024) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    streams[0]?.session?.close();
    stream.end();
    expect(await client.closed).toBeUndefined();
    expect(client.events).toEqual(["message", "end", "close"]);
  });
});

test("a client's pings detect a server that disappeared", async () => {
  // The server completes the handshake, then never reads again.
  await using other = await foreign(
    createTcp((socket) => {
      socket.write(Buffer.from("000000040000000000", "hex"));
      socket.on("error", () => {});
    }),
  );
  await using stream = await openStream(other.address, { pingIntervalMs: 20 });
  const error = errorOf(await record(stream).closed);
  expect(error).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
  expect(error.message).toContain("did not answer a ping within 20 ms");
});

test("closing is idempotent and ends an open stream", async () => {
  await using server = await serving();
  const stream = await openStream(server.address);
  const client = record(stream);
  const served = record(await server.next());
  await Promise.all([stream.close(), stream.close()]);
  await stream.close();
  expect(errorOf(await client.closed).code).toBe("CANCELLED");
  expect(errorOf(await served.closed).code).toBe("CANCELLED");
});

test("a connection closes by itself when its stream has closed", async () => {
  await using server = await serving();
  const stream = await openStream(server.address);
  const client = record(stream);
  const accepted = await server.next();
  const served = record(accepted, { onEnd: () => accepted.end() });
  stream.end();
  await client.closed;
  await served.closed;
  while (server.listener.connections > 0) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  await stream.close();
});
