// SPDX-License-Identifier: Apache-2.0
import { connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import { parseAddress } from "@dm-env-rpc/transport";

/** End of a stream that received a malformed gRPC frame. */
export type BadFrameOutcome =
  | { readonly kind: "status"; readonly code: string }
  | { readonly kind: "reset" | "no end of the stream" | "the end of the connection" };

/** Sends a gRPC frame with invalid flags and length over a new connection. */
export async function sendBadFrame(
  address: string,
  message: Uint8Array,
  timeoutMs: number,
): Promise<BadFrameOutcome> {
  const { authority, secure, path } = parseAddress(address);
  const session =
    path === undefined
      ? connect(`${secure ? "https" : "http"}://${authority}`)
      : connect("http://localhost", { createConnection: () => connectSocket({ path }) });
  try {
    return await new Promise<BadFrameOutcome>((resolve) => {
      session.on("error", () => resolve({ kind: "the end of the connection" }));
      session.on("close", () => resolve({ kind: "the end of the connection" }));
      const stream = session.request({
        ":method": "POST",
        ":path": "/dm_env_rpc.v1.Environment/Process",
        "content-type": "application/grpc",
        te: "trailers",
      });
      let status: string | undefined;
      const note = (headers: Readonly<Record<string, unknown>>): void => {
        if (headers["grpc-status"] !== undefined) {
          status = String(headers["grpc-status"]);
        }
      };
      stream.on("response", note);
      stream.on("trailers", note);
      stream.on("error", () => resolve({ kind: "reset" }));
      stream.on("close", () =>
        resolve(status === undefined ? { kind: "reset" } : { kind: "status", code: status }),
      );
      stream.setTimeout(timeoutMs, () => resolve({ kind: "no end of the stream" }));
      stream.resume();
      // Undefined flags, and more bytes than the length announces.
      stream.end(Uint8Array.of(0x7f, 0xff, 0xff, 0xff, 0xff, ...message, 1, 2, 3));
    });
  } finally {
    session.destroy();
  }
}
