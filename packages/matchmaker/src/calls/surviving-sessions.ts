// SPDX-License-Identifier: Apache-2.0
import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * HTTP/2 sessions of Connect whose errors do not end the process. If a ping is not answered, the session's
 * streams fail first, and the session fails a moment later. A caller that retries in between makes Connect
 * drop the session, and then nothing would handle the session's error.
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
      // The session's error is ignored: each call reports the error of its own stream.
      session.on("error", () => {});
    }
    return stream;
  }
}
