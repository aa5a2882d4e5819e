// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { root } from "./pages.ts";

/** A registry of npm on this machine. */
export interface PackageRegistry {
  readonly url: string;
  close(): Promise<void>;
}

/** Packs the packages of this repository into `folder`, and offers them as npm's registry would. */
export async function serveRegistry(folder: string): Promise<PackageRegistry> {
  const documents = new Map<string, string>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    const document = documents.get(path.slice(1));
    if (document !== undefined) response.end(document);
    else if (path.endsWith(".tgz")) response.end(readFileSync(join(folder, basename(path))));
    else response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  for (const path of globSync("packages/*/package.json", { cwd: root })) {
    const printed = execFileSync("pnpm", ["pack", "--json", "--pack-destination", folder], {
      cwd: join(root, path, ".."),
      encoding: "utf8",
    });
    const { filename } = JSON.parse(printed) as { readonly filename: string };
    const packed = execFileSync("tar", ["-xzOf", filename, "package/package.json"]);
    const manifest = JSON.parse(packed.toString()) as { name: string; version: string };
    const hash = createHash("sha512").update(readFileSync(filename)).digest("base64");
    const dist = { tarball: `${url}${basename(filename)}`, integrity: `sha512-${hash}` };
    const { name, version } = manifest;
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
