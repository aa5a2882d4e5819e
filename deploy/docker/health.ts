// SPDX-License-Identifier: Apache-2.0
// usage: node health.ts URL [SERVICE]
//
// Requests a server's health (grpc.health.v1.Health/Check) and exits with 0 if the server is SERVING.
// For Docker's HEALTHCHECK, and for Kubernetes probes over TLS, which the kubelet does not support.
// It needs only Node, so it starts quickly and fits into every image.
import { connect } from "node:http2";

const deadlineMs = 3_000;
const serving = 1;

/** Encodes a HealthCheckRequest: gRPC's prefix of five bytes, then field 1. */
function requestOf(service: string): Buffer {
  const name = Buffer.from(service);
  if (name.length > 127) {
    throw new Error(`service: expected a name of at most 127 bytes, received ${name.length}`);
  }
  const message = name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a, name.length), name]);
  return Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message]);
}

/** Decodes field 1 of a HealthCheckResponse, after the prefix. If the field is absent, the status is 0, UNKNOWN. */
function statusOf(response: Buffer): number {
  return response[5] === 0x08 ? (response[6] ?? 0) : 0;
}

async function check(url: string, service: string): Promise<void> {
  // The check connects to 127.0.0.1, which is not a name in the server's certificate.
  const session = connect(url, { rejectUnauthorized: false });
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
      "grpc-timeout": `${deadlineMs}m`,
    });
    const chunks: Buffer[] = [];
    let code = "";
    await new Promise<void>((resolve, reject) => {
      const fail = (error: Error): void =>
        reject(new Error(`${url} does not answer`, { cause: error }));
      session.on("error", fail);
      stream.on("error", fail);
      stream.setTimeout(deadlineMs, () =>
        fail(new Error(`expected a response within ${deadlineMs} ms, received none`)),
      );
      stream.on("response", (headers) => {
        code = String(headers["grpc-status"] ?? "");
      });
      stream.on("trailers", (trailers) => {
        code = String(trailers["grpc-status"] ?? "");
      });
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("close", resolve);
      stream.end(requestOf(service));
    });
    if (code !== "0") {
      throw new Error(
        `${url} refused the health check: expected the gRPC status 0, received ${code || "none"}`,
      );
    }
    const status = statusOf(Buffer.concat(chunks));
    if (status !== serving) {
      throw new Error(`${url} is not serving: expected the health ${serving}, received ${status}`);
    }
  } finally {
    session.destroy();
  }
}

const [url, service = ""] = process.argv.slice(2);
try {
  if (url === undefined) {
    throw new Error("usage: node health.ts URL [SERVICE]");
  }
  await check(url, service);
} catch (error) {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  process.stderr.write(`${message}${cause instanceof Error ? `: ${cause.message}` : ""}\n`);
  process.exitCode = 1;
}
