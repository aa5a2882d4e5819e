// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { heldOpen } from "./held-open.ts";
import { ours } from "./ours.ts";
import type { Peer } from "./peer.ts";

/** Connections to our server that never send a request. */
export const idle: Peer = {
  ...ours,
  async connect(_load, port) {
    const connection = await connect(`127.0.0.1:${port}`);
    return heldOpen(() => connection.close());
  },
};
