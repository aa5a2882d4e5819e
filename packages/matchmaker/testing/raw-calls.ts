// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp } from "node:net";
import type { MatchmakerServer } from "../src/serve-matchmaker.ts";

/** A listener to call. */
export type Address = Pick<MatchmakerServer, "url" | "host" | "port">;

/** A call by gRPC that a correct client would not make. */
interface RawCall {
  readonly path: string;
  readonly body: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** False if the request never ends. Default true. */
  readonly ends?: boolean;
}

/** The status with which a call ended. */
export interface RawStatus {
  readonly status: string | undefined;
  readonly message: string;
  readonly retryAfter: string | undefined;
}

/** Connects from an address of this machine. */
export function connectFrom(
  { url, host, port }: Address,
  localAddress = "127.0.0.1",
): ClientHttp2Session {
  const createConnection = () => connectTcp({ host, port, localAddress });
  return connect(url, { createConnection }).on("error", () => {});
}

/** Begins a call, and returns its status once the call has one. */
export async function begin(
  session: ClientHttp2Session,
  { path, body, headers = {}, ends = true }: RawCall,
): Promise<RawStatus> {
  const call = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  call.on("error", () => {});
  call.resume();
  if (ends) {
    call.end(body);
  } else {
    call.write(body);
  }
  const end = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
    call.once("trailers", resolve);
    call.once("response", (response) => {
      if (response["grpc-status"] !== undefined) {
        resolve(response);
      }
    });
    call.once("close", () => reject(new Error("the call ended without a status")));
  });
  return {
    status: end["grpc-status"]?.toString(),
    message: decodeURIComponent(String(end["grpc-message"])),
    retryAfter: end["retry-after"]?.toString(),
  };
}

/** Makes one call, on a connection of its own. */
export async function rawCall(listener: Address, call: RawCall): Promise<RawStatus> {
  const session = connectFrom(listener);
  try {
    return await begin(session, call);
  } finally {
    session.destroy();
  }
}
