// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { findCircles, readImports } from "./import-graph.ts";

const root = new URL("../../../", import.meta.url);

/** The packages that each package imports (ARCHITECTURE.md). */
const imported: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  "tensor-codec": ["protocol"],
  transport: ["protocol", "tensor-codec"],
  client: ["protocol", "tensor-codec", "transport"],
  conformance: ["protocol", "tensor-codec", "transport"],
  server: ["protocol", "tensor-codec", "transport"],
  matchmaker: ["protocol", "tensor-codec", "transport", "client"],
  relay: ["protocol", "tensor-codec", "transport"],
  create: [],
  page: ["protocol", "tensor-codec", "client"],
};

/** The rooms of a package's `src`, and the rooms that each imports (ARCHITECTURE.md). */
const rooms: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  "tensor-codec": {
    errors: [],
    dtypes: [],
    tensors: ["dtypes", "errors"],
    specs: ["tensors", "dtypes", "errors"],
    packing: ["specs", "tensors", "dtypes", "errors"],
    wire: ["tensors", "dtypes", "errors"],
    proto: ["wire", "packing", "specs", "tensors", "dtypes", "errors"],
  },
  transport: {
    internal: [],
    limits: ["internal"],
    assembly: ["internal"],
    stream: ["limits", "internal"],
    http2: ["assembly", "stream", "limits", "internal"],
    websocket: ["assembly", "stream", "limits", "internal"],
    connect: ["stream", "limits", "internal"],
    open: ["connect", "websocket", "http2", "assembly", "stream", "limits", "internal"],
    listen: ["connect", "websocket", "http2", "assembly", "stream", "limits", "internal"],
    relay: ["open", "websocket", "assembly", "stream", "limits", "internal"],
  },
  server: {
    definition: [],
    clocks: ["definition"],
    canvas: ["clocks", "definition"],
    engine: ["clocks", "definition"],
    properties: ["engine", "definition"],
    session: ["properties", "engine", "definition"],
    spectating: ["engine", "clocks", "definition"],
    page: [],
    host: ["page", "spectating", "session", "properties", "engine", "definition"],
    metrics: ["host"],
  },
  client: {
    stream: [],
    environment: ["stream"],
    connection: ["environment", "stream"],
    properties: ["environment", "stream"],
    recording: ["properties", "connection", "environment", "stream"],
    realtime: ["environment", "stream"],
    vector: ["connection", "environment", "stream"],
  },
  matchmaker: {
    model: [],
    store: ["model"],
    redis: ["store", "model"],
    errors: ["store"],
    functions: ["errors", "model"],
    profiles: ["functions", "errors", "model"],
    fleet: ["profiles", "model"],
    replica: ["store", "model"],
    tokens: ["replica", "model"],
    director: ["tokens", "replica", "fleet", "profiles", "functions", "store", "model"],
    services: [
      "director",
      "tokens",
      "replica",
      "fleet",
      "profiles",
      "functions",
      "errors",
      "store",
      "model",
    ],
    agones: ["fleet"],
    calls: [],
    client: ["calls", "model"],
    registration: ["calls", "tokens", "errors", "model"],
    cli: ["calls"],
  },
};

function sources(folder: URL): URL[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => new URL(`file://${entry.parentPath}/${entry.name}`));
}

describe("imports", () => {
  const packages = readdirSync(new URL("packages/", root));

  it("have a rule for every package", () => {
    expect(packages.sort()).toEqual(Object.keys(imported).sort());
  });

  it.each(packages)("of %s point one way", (name) => {
    const folder = new URL(`packages/${name}/`, root);
    const manifest = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
    const wanted = imported[name]?.map((other) => `@dm-env-rpc/${other}`);
    const declared = Object.keys(manifest.dependencies).filter((other) =>
      other.startsWith("@dm-env-rpc/"),
    );
    expect(declared.sort()).toEqual(wanted?.sort());
    for (const file of sources(new URL("src/", folder))) {
      if (file.pathname.endsWith(".test.ts")) {
        continue;
      }
      const isOfTests = file.pathname.includes("/src/testing/");
      const mayImport = isOfTests
        ? [...declared, ...Object.keys(manifest.devDependencies)]
        : declared;
      for (const [, specifier = ""] of readFileSync(file, "utf8").matchAll(
        /from "(@dm-env-rpc\/[a-z-]+)/g,
      )) {
        expect(mayImport, file.pathname).toContain(specifier);
      }
    }
  });

  it.each(packages)("of %s have no cycle, including types", (name) => {
    const circles = findCircles(readImports(fileURLToPath(new URL(`packages/${name}/`, root))));
    expect(circles).toEqual([]);
  });

  it.each(Object.entries(rooms))("of the rooms of %s point one way", (name, allowedOf) => {
    const folder = fileURLToPath(new URL(`packages/${name}/`, root));
    const roomOf = (file: string): string => /^src\/([^/]+)\//.exec(file)?.[1] ?? "";
    const wrong = [...readImports(folder)].flatMap(([file, imported]) => {
      const room = roomOf(file);
      if (room === "" || room === "testing" || file.endsWith(".test.ts")) {
        return [];
      }
      const allowed = [room, ...(allowedOf[room] ?? [])];
      return imported
        .filter((other) => !allowed.includes(roomOf(other)))
        .map((other) => `${file} → ${other}`);
    });
    expect(wrong).toEqual([]);
  });

  it.each(Object.entries(rooms))("of %s have a rule for every room", (name, allowedOf) => {
    const entries = readdirSync(new URL(`packages/${name}/src/`, root), { withFileTypes: true });
    const folders = entries
      .filter((entry) => entry.isDirectory() && entry.name !== "testing")
      .map((entry) => entry.name);
    expect(folders.sort()).toEqual(Object.keys(allowedOf).sort());
  });
});
