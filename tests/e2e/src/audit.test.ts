// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { Program } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Audits with a registry that answers every request with the given status and advisories. */
async function audit(status: number, advisories: object) {
  const registry = createServer((request, response) => {
    request.resume().once("end", () => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(advisories));
    });
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const bound = registry.address();
  const port = typeof bound === "object" && bound !== null ? bound.port : 0;
  const program = new Program(process.execPath, ["scripts/audit.mjs"], {
    cwd: root,
    env: { ...process.env, PNPM_CONFIG_REGISTRY: `http://127.0.0.1:${port}/` },
  });
  try {
    return await program.outcome();
  } finally {
    registry.close();
  }
}

const advisory = {
  id: 1,
  url: "https://github.com/advisories/GHSA-aaaa-bbbb-cccc",
  title: "frames of a peer end the process",
  severity: "high",
  vulnerable_versions: ">=0.0.0",
  cwe: [],
  cvss: { score: 7, vectorString: null },
};

describe("npm run audit", () => {
  it("passes without advisories", async () => {
    const { status, stdout } = await audit(200, {});
    expect({ status, stdout }).toMatchObject({ status: 0 });
  });

  it("fails for an advisory of a dependency and names it", async () => {
    const { status, stdout } = await audit(200, { ws: [advisory] });
    expect(status).toBe(1);
    expect(stdout).toContain("GHSA-aaaa-bbbb-cccc");
  });

  it("passes, and prints why, if the registry does not audit", async () => {
    const { status, stdout } = await audit(405, {});
    expect(status).toBe(0);
    expect(stdout).toContain("responded with 405");
    expect(stdout).toContain("not audited");
  });
});
