// SPDX-License-Identifier: Apache-2.0
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { SpectatorService } from "@dm-env-rpc/protocol/spectator";

/** The connection of a page to its server. */
export interface Spectator {
  readonly service: Client<typeof SpectatorService>;
  /** Metadata of each call. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Address that agents connect to. */
  readonly url: string;
}

/**
 * Returns a parameter in the fragment of the page's address: `#name=…`, or `#/place?name=…`. Browsers do not send
 * fragments, so no log of a server has them.
 */
export function fragmentParameter(fragment: string, name: string): string | undefined {
  const parameters = fragment.startsWith("#/")
    ? fragment.slice(fragment.indexOf("?") + 1)
    : fragment.slice(1);
  return new URLSearchParams(parameters).get(name) ?? undefined;
}

/**
 * Connects to the server that has served the page.
 *
 * @param fragment The fragment of the page's address, whose `token` is sent with every call as `authorization: Bearer`.
 */
export function createSpectator(origin: string, fragment: string): Spectator {
  const token = fragmentParameter(fragment, "token");
  const metadata: Record<string, string> =
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  const withMetadata: Interceptor = (next) => (request) => {
    for (const [name, value] of Object.entries(metadata)) {
      request.header.set(name, value);
    }
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: origin,
    useBinaryFormat: true,
    interceptors: [withMetadata],
  });
  return {
    service: createClient(SpectatorService, transport),
    metadata,
    url: origin.replace(/^http/, "ws"),
  };
}
