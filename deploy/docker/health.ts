// SPDX-License-Identifier: Apache-2.0
// usage: node health.ts URL [SERVICE]
//
// Asks a server for its health (grpc.health.v1.Health/Check), and ends with 0 when it serves: for
// a HEALTHCHECK, and for probes where the kubelet's own cannot be used, since that knows no TLS.
// It needs nothing but Node, so that it starts quickly and goes into every image.
import { connect } from "node:http2";

const deadlineMs = 3_000;
const serving = 1;

/** Field 1 of a HealthCheckRequest, behind gRPC's prefix of five bytes. */
function requestOf(service: string): Buffer {
  const name = Buffer.from(service);
  if (name.length > 127) {
    throw new Error("a service's name of 127 bytes at most was expected");
  }
  const message = name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a, name.length), name]);
  return Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message]);
}

/** Field 1 of a HealthCheckResponse, behind the prefix; one that is left out is 0, UNKNOWN. */
function statusOf(response: Buffer): number {
  return response[5] === 0x08 ? (response[6] ?? 0) : 0;
}

async function check(url: string, service: string): Promise<void> {
  // Whether it serves is asked, not who it is: its certificate is for another name than 127.0.0.1.
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
      stream.setTimeout(deadlineMs, () => fail(new Error(`nothing came for ${deadlineMs} ms`)));
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
      throw new Error(`${url} refused to say: gRPC status ${code || "none"}`);
    }
    const status = statusOf(Buffer.concat(chunks));
    if (status !== serving) {
      throw new Error(`${url} does not serve: its health is ${status}, not 1`);
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
