// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ServerAllocator } from "@dm-env-rpc/matchmaker";
import { agonesAllocator } from "@dm-env-rpc/matchmaker/agones";
import type { Flags } from "./flags.ts";

/**
 * Returns the allocator for the fleet of `--agones-namespace`, if there is one.
 *
 * @throws Error if the service account has no token, or `--kubernetes-url` is malformed.
 */
export function allocatorFrom({
  agonesNamespace: namespace,
  kubernetesUrl: url,
  kubernetesAccount: account,
}: Flags): ServerAllocator | undefined {
  if (namespace === undefined) {
    return undefined;
  }
  const tokenFile = join(account, "token");
  const caFile = join(account, "ca.crt");
  if (!existsSync(tokenFile)) {
    throw new Error(
      `--kubernetes-account: expected a folder with the token of a service account, received "${account}"; set automountServiceAccountToken for the pod`,
    );
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new Error(`--kubernetes-url: expected an https:// or http:// URL, received "${url}"`);
  }
  return agonesAllocator({
    url,
    namespace,
    token: () => readFile(tokenFile, "utf8"),
    ca: existsSync(caFile) ? readFileSync(caFile, "utf8") : undefined,
  });
}
