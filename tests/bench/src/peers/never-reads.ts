// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { EnvironmentRequestSchema, EnvironmentResponseSchema } from "@dm-env-rpc/protocol";
import { framesOf } from "../loads/frames.ts";
import { frame } from "../loads/framing.ts";
import { ours } from "./ours.ts";
import type { Peer } from "./peer.ts";
import { repeated } from "./sockets.ts";

/** Steps of one write: 57 KB. */
const steps = 2_048;

/**
 * A client that joins, then requests steps for as long as the server accepts requests. It never
 * reads a response; `play` resolves with the number of requests.
 */
export const neverReads: Peer = {
  ...ours,
  async connect(load, port) {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const stream = session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("error", () => {});
    const say = (payload: MessageInitShape<typeof EnvironmentRequestSchema>["payload"]): void => {
      const request = create(EnvironmentRequestSchema, payload === undefined ? {} : { payload });
      stream.write(frame(toBinary(EnvironmentRequestSchema, request)));
    };
    const answer = async () => {
      const data = once(stream, "data");
      stream.resume();
      const [chunk] = (await data) as [Buffer];
      stream.pause();
      return fromBinary(EnvironmentResponseSchema, chunk.subarray(5)).payload;
    };
    say({ case: "createWorld", value: {} });
    const created = await answer();
    if (created.case !== "createWorld") {
      throw new Error(`expected a world, received ${created.case}`);
    }
    say({ case: "joinWorld", value: { worldName: created.value.worldName } });
    const joined = await answer();
    if (joined.case !== "joinWorld") {
      throw new Error(`expected to join, received ${joined.case}`);
    }
    const many = repeated(framesOf(load).request)(steps);
    return {
      play: ({ until }) =>
        new Promise((resolve) => {
          let asked = 0;
          const timer = setInterval(() => {
            if (performance.now() >= until) {
              clearInterval(timer);
              resolve(asked);
            } else if (!stream.writableNeedDrain) {
              stream.write(many);
              asked += steps;
            }
          }, 1);
        }),
      async close() {
        session.destroy();
      },
    };
  },
};
