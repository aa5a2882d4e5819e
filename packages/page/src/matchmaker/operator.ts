// SPDX-License-Identifier: Apache-2.0
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
} from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService, RegistryService, type WatchResponse } from "@dm-env-rpc/protocol/matchmaker";

/** The connection of an operator to the matchmaker that has served the page. */
export interface Operator {
  /**
   * Yields undefined once the matchmaker has admitted the operator. Then yields each existing profile, server, match
   * and ticket once, as if it had just changed, and after that each change.
   */
  watch(signal: AbortSignal): AsyncIterable<WatchResponse["change"] | undefined>;
  /** Stops placing worlds on a server. */
  drain(serverId: string): Promise<void>;
}

/**
 * Connects to a matchmaker.
 *
 * @param token The operator's token, which is kept in memory only; undefined for a matchmaker without roles.
 */
export function createOperator(origin: string, token: string | undefined): Operator {
  const withToken: Interceptor = (next) => (request) => {
    if (token !== undefined) {
      request.header.set("authorization", `Bearer ${token}`);
    }
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: origin,
    useBinaryFormat: true,
    interceptors: [withToken],
  });
  const admin = createClient(AdminService, transport);
  const registry = createClient(RegistryService, transport);
  return {
    watch: (signal) => watch(admin, signal),
    async drain(serverId) {
      await registry.drainServer({ serverId });
    },
  };
}

async function* watch(
  admin: Client<typeof AdminService>,
  signal: AbortSignal,
): AsyncGenerator<WatchResponse["change"] | undefined> {
  // If a matchmaker has no records, its watch yields nothing, so the watch does not show whether the operator was admitted.
  await admin.listProfiles({ pageSize: 1 }, { signal });
  yield undefined;
  for await (const { change } of admin.watch({}, { signal })) {
    yield change;
  }
  throw new ConnectError("the matchmaker ended the watch", Code.Unavailable);
}
