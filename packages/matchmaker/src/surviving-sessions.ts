// SPDX-License-Identifier: Apache-2.0
import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * HTTP/2 sessions of Connect whose errors do not end the process. A session that does not answer a
 * ping fails a moment after its streams. If a caller retries immediately, Connect drops the session
 * before the session fails, and the session's error would be unhandled.
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
      // Each call on the session reports its own stream's error.
      session.on("error", () => {});
    }
    return stream;
  }
}
