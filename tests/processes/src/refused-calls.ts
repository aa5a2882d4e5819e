// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";

/** Calls that are open at a time. */
const callsAtOnce = 200;

/** The end of a connection on which every call was refused. */
export interface RefusedCalls {
  /** Error code of the GOAWAY (RFC 9113, section 7). */
  readonly goawayCode: number;
  /** The statuses of the calls, in gRPC's numbers. */
  readonly statuses: ReadonlySet<string>;
}

/** Calls Process on one connection until the server ends the connection. No call ends its request. */
export async function callUntilEnded(url: string): Promise<RefusedCalls> {
  const session = connect(url);
  session.on("error", () => {});
  const goaway = once(session, "goaway");
  const statuses = new Set<string>();
  // As many as it takes: calls that arrive slowly do not count.
  while (!session.closed && !session.destroyed) {
    await Promise.all(Array.from({ length: callsAtOnce }, () => callOnce(session, statuses)));
  }
  const [goawayCode] = await goaway;
  return { goawayCode, statuses };
}

async function callOnce(session: ClientHttp2Session, statuses: Set<string>): Promise<void> {
  const call = session.request({
    ":method": "POST",
    ":path": "/dm_env_rpc.v1.Environment/Process",
    "content-type": "application/grpc",
    te: "trailers",
  });
  call.on("error", () => {});
  call.on("trailers", (trailers) => statuses.add(String(trailers["grpc-status"])));
  call.resume();
  await new Promise((resolve) => call.once("close", resolve)); // `once` rejects at an error.
}
