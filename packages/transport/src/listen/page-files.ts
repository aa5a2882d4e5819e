// SPDX-License-Identifier: Apache-2.0
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import type { ServedFile } from "./listen-options.ts";

/** Lets the page load files only from its own server, call only that server, and show pictures that it has received. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const headers = {
  "cache-control": "no-cache",
  "content-security-policy": contentSecurityPolicy,
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

const contentTypes = {
  "index.html": "text/html; charset=utf-8",
  "page.js": "text/javascript; charset=utf-8",
  "page.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
} as const;

/**
 * Reads the files of a page. Their keys are the paths at which a listener serves them.
 *
 * @param folder The folder to which `npm run build` copies the page.
 * @throws Error if the page was not built.
 */
export async function readPageFiles(folder: URL): Promise<ReadonlyMap<string, ServedFile>> {
  const files = await Promise.all(
    Object.entries(contentTypes).map(async ([name, contentType]) => {
      const body = await readFile(new URL(name, folder));
      const file: ServedFile = {
        headers: { ...headers, "content-type": contentType },
        body,
        gzip: gzipSync(body),
      };
      return [name === "index.html" ? "/" : `/${name}`, file] as const;
    }),
  );
  return new Map(files);
}
