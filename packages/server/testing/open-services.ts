// SPDX-License-Identifier: Apache-2.0
import { connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ServerReflection } from "@dm-env-rpc/protocol/reflection";

/**
 * Calls Health/Check by gRPC with an empty body, and returns the message of the error. Byte streams and Connect's
 * handler have different messages.
 */
export async function healthOfNothing(baseUrl: string): Promise<string> {
  const session = connectHttp2(baseUrl);
  try {
    const call = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
    });
    call.resume().end();
    const end = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
      call.once("trailers", resolve);
      call.once("error", reject);
      session.once("error", reject);
    });
    return decodeURIComponent(String(end["grpc-message"]));
  } finally {
    session.destroy();
  }
}

/** Calls reflection a seventeenth time while sixteen calls are open. */
export async function seventeenthReflection(baseUrl: string): Promise<void> {
  const { serverReflectionInfo } = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
  const leaving = new AbortController();
  const { signal } = leaving;
  async function* requests() {
    yield { messageRequest: { case: "listServices", value: "" } } as const;
    await new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  }
  const first = (): Promise<unknown> =>
    serverReflectionInfo(requests(), { signal })[Symbol.asyncIterator]().next();
  try {
    await Promise.all(Array.from({ length: 16 }, first));
    await first();
  } finally {
    leaving.abort();
  }
}
