// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { golden } from "../testing/golden.ts";

const run = promisify(execFile);

const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  (path) => existsSync(path),
);

const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The page's script: decodes and re-encodes every golden message, and uses the values of a spec. */
const page = `
  import { packFor, sample, t, unpack, validate } from "./index.ts";
  import { createRequestCodec, createResponseCodec, decodeTensor, encodeTensor } from "./wire/index.ts";
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const codecs = { request: createRequestCodec(), response: createResponseCodec() };
  const failures = [];
  let passed = 0;
  for (const { name, kind, text } of globalThis.golden) {
    try {
      const bytes = Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
      let again;
      if (kind === "tensor") {
        const packed = decodeTensor(bytes);
        unpack(packed);
        again = encodeTensor(packed);
      } else {
        const codec = codecs[kind];
        const message = codec.read(bytes, 0, bytes.length);
        again = new Uint8Array(codec.size(message));
        codec.write(message, again, 0);
      }
      if (hex(again) !== text) throw new Error("other bytes");
      passed++;
    } catch (error) {
      failures.push(name + ": " + error);
    }
  }
  const spec = t.float32([2, 3], { min: -1, max: 1 });
  validate(sample(spec, Math.random), spec, "x");
  validate(packFor([[1, 0, 1], [0, 1, 0]], spec, "x"), spec, "x");
  document.body.textContent = JSON.stringify({ passed, failures });
`;

test("runs in a browser", async ({ skip }) => {
  if (chromium === undefined) {
    return skip("no Chromium on this machine; CI installs it");
  }
  const folder = await mkdtemp(join(tmpdir(), "tensor-codec-browser-"));
  try {
    const entries = golden
      .filter(({ kind }) => kind === "tensor" || kind === "request" || kind === "response")
      .map(({ name, kind, bytes }) => ({ name, kind, text: Buffer.from(bytes).toString("hex") }));
    const bundle = await build({
      stdin: {
        contents: page,
        resolveDir: fileURLToPath(new URL(".", import.meta.url)),
        loader: "js",
      },
      bundle: true,
      write: false,
      format: "iife",
      platform: "browser",
      target: "es2022",
      logLevel: "silent",
    });
    const [script] = bundle.outputFiles;
    await writeFile(join(folder, "page.js"), script?.contents ?? "");
    await writeFile(
      join(folder, "page.html"),
      `<!doctype html><body>nothing ran<script>globalThis.golden = ${JSON.stringify(entries)}</script><script src="page.js"></script>`,
    );
    const { stdout } = await run(
      chromium,
      [
        ...flags,
        `--user-data-dir=${join(folder, "profile")}`,
        "--dump-dom",
        `file://${folder}/page.html`,
      ],
      { timeout: 150_000 },
    );
    const text = /<body>(.*)<\/body>/s.exec(stdout)?.[1] ?? "";
    expect(text).toBe(JSON.stringify({ passed: entries.length, failures: [] }));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});
