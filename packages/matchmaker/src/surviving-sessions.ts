// SPDX-License-Identifier: Apache-2.0
import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * Connect's sessions, whose errors end no process. A session that does not answer a ping fails a moment after its
 * streams do. Whoever calls again at once makes Connect let go of it meanwhile, and nobody would hear its error.
 */
export class SurvivingSessions extends Http2SessionManager {
  readonly #heard = new WeakSet<object>();

  override async request(
    ...args: Parameters<Http2SessionManager["request"]>
  ): ReturnType<Http2SessionManager["request"]> {
    const stream = await super.request(...args);
    const { session } = stream;
    if (session !== undefined && !this.#heard.has(session)) {
      this.#heard.add(session);
      // Each call on the session is told by its own stream.
      session.on("error", () => {});
    }
    return stream;
  }
}
