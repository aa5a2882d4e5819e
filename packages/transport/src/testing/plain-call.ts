// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import {
  type ClientHttp2Stream,
  connect,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** Both sides of a call over node:http2, without a listener. */
export interface PlainCall {
  readonly client: ClientHttp2Stream;
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
}

/** Opens a call whose request has not ended. Its connection closes when the test finishes. */
export async function plainCall(): Promise<PlainCall> {
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
  return { client, stream, headers };
}
