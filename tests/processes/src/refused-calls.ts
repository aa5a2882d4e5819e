// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";

/** Calls that are open at a time. */
const callsAtOnce = 200;

/** Number of calls after which the server should have ended the connection long ago. */
const mostCalls = 20_000;

/** The end of a connection on which every call was refused. */
export interface RefusedCalls {
  readonly calls: number;
  /** Error code of the GOAWAY (RFC 9113, section 7). */
  readonly goawayCode: number;
  /** The statuses of the calls, in gRPC's numbers. */
  readonly statuses: ReadonlySet<string>;
}

/**
 * Calls Process on one connection, without messages, until the server ends the connection.
 *
 * @throws Error if the server has not ended the connection after 20,000 calls.
 */
export async function callUntilEnded(url: string): Promise<RefusedCalls> {
  const session = connect(url);
  session.on("error", () => {});
  try {
    const goaway = once(session, "goaway");
    const statuses = new Set<string>();
    let calls = 0;
    while (!session.closed && !session.destroyed) {
      if (calls >= mostCalls) {
        throw new Error(
          `expected the server to end the connection, but it answered ${calls} calls`,
        );
      }
      await Promise.all(Array.from({ length: callsAtOnce }, () => callOnce(session, statuses)));
      calls += callsAtOnce;
    }
    const [goawayCode] = await goaway;
    return { calls, goawayCode, statuses };
  } finally {
    session.destroy();
  }
}

async function callOnce(session: ClientHttp2Session, statuses: Set<string>): Promise<void> {
  const call = session.request({
    ":method": "POST",
    ":path": "/dm_env_rpc.v1.Environment/Process",
    "content-type": "application/grpc",
    te: "trailers",
  });
  const addStatus = ({ "grpc-status": status }: { "grpc-status"?: unknown }): void => {
    if (status !== undefined) {
      statuses.add(String(status));
    }
  };
  call.on("error", () => {});
  call.on("response", addStatus);
  call.on("trailers", addStatus);
  call.resume().end();
  await new Promise((resolve) => call.once("close", resolve)); // `once` rejects at an error.
}
