// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { packAll } from "@dm-env-rpc/tests-release/tarballs";

/** A local npm registry. */
export interface PackageRegistry {
  readonly url: string;
  close(): Promise<void>;
}

/** Packs the packages of this repository into `folder` and serves them as an npm registry. */
export async function serveRegistry(folder: string): Promise<PackageRegistry> {
  const documents = new Map<string, string>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    const document = documents.get(path.slice(1));
    if (document !== undefined) {
      response.end(document);
    } else if (path.endsWith(".tgz")) {
      response.end(readFileSync(join(folder, basename(path))));
    } else {
      response.writeHead(404).end();
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  for (const { name, path } of await packAll(folder)) {
    // The packed manifest has versions instead of "workspace:".
    const packed = execFileSync("tar", ["-xzOf", path, "package/package.json"]);
    const manifest = JSON.parse(packed.toString()) as { readonly version: string };
    const hash = createHash("sha512").update(readFileSync(path)).digest("base64");
    const dist = { tarball: `${url}${basename(path)}`, integrity: `sha512-${hash}` };
    const { version } = manifest;
    const versions = { [version]: { ...manifest, dist } };
    documents.set(name, JSON.stringify({ name, "dist-tags": { latest: version }, versions }));
  }
  return {
    url,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
