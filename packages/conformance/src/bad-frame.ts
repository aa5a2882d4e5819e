// SPDX-License-Identifier: Apache-2.0
import { connect } from "node:http2";
import { parseAddress } from "@dm-env-rpc/transport";

/**
 * Sends a gRPC message whose flags and length are wrong, over a connection of its own.
 *
 * Returns the status that the stream ends with, or what else becomes of it.
 */
export async function sendBadFrame(
  address: string,
  message: Uint8Array,
  timeoutMs: number,
): Promise<string> {
  const { authority, secure } = parseAddress(address);
  const session = connect(`${secure ? "https" : "http"}://${authority}`);
  try {
    return await new Promise<string>((resolve) => {
      session.on("error", (error) => resolve(`connection lost: ${error.message}`));
      const stream = session.request({
        ":method": "POST",
        ":path": "/dm_env_rpc.v1.Environment/Process",
        "content-type": "application/grpc",
        te: "trailers",
      });
      let status = "no status";
      const note = (headers: Readonly<Record<string, unknown>>): void => {
        if (headers["grpc-status"] !== undefined) status = String(headers["grpc-status"]);
      };
      stream.on("response", note);
      stream.on("trailers", note);
      stream.on("error", (error) => resolve(`stream reset: ${error.message}`));
      stream.on("close", () => resolve(status));
      stream.setTimeout(timeoutMs, () => resolve("0"));
      stream.resume();
      // Flags that nobody has defined, and more bytes than are announced.
      stream.end(Uint8Array.of(0x7f, 0xff, 0xff, 0xff, 0xff, ...message, 1, 2, 3));
    });
  } finally {
    session.destroy();
  }
}
