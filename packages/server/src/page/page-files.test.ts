// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect } from "node:http2";
import { expect, test } from "vitest";
import { serving } from "../../testing/network.ts";
import { tally } from "../../testing/tally.ts";

test("a server with the option `page` serves a page, which can load nothing from elsewhere", async () => {
  await using server = await serving({ worlds: [tally()], page: true });
  const index = await fetch(server.url);
  expect(index.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const policy = index.headers.get("content-security-policy");
  expect(policy).toMatch(/default-src 'none'; script-src 'self'; .*frame-ancestors 'none'/);
  const text = await index.text();
  const paths = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = ""]) => path);
  expect(paths).toContain("/page.js");
  for (const path of paths) {
    const file = await fetch(new URL(path, server.url));
    expect([path, file.status, file.headers.get("x-content-type-options")]).toEqual([
      path,
      200,
      "nosniff",
    ]);
    expect((await file.bytes()).length).toBeGreaterThan(0);
  }
});

test("a page's files are served over HTTP/2, also for HEAD requests", async () => {
  await using server = await serving({ worlds: [tally()], page: true });
  const session = connect(server.url);
  try {
    for (const method of ["GET", "HEAD"]) {
      const request = session.request({ ":method": method, ":path": "/?from=a-link" });
      const [headers] = await once(request, "response");
      let bytes = 0;
      request.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
      });
      await once(request, "end");
      expect(headers[":status"]).toBe(200);
      expect(bytes).toBe(method === "GET" ? Number(headers["content-length"]) : 0);
    }
  } finally {
    session.close();
  }
});

test("a page's script is compressed for clients that accept it", async () => {
  await using server = await serving({ worlds: [tally()], page: true });
  const lengthOf = async (encoding: string) => {
    const response = await fetch(`${server.url}/page.js`, {
      headers: { "accept-encoding": encoding },
    });
    const script = await response.text();
    return [script.length, Number(response.headers.get("content-length"))] as const;
  };
  const [plain, zipped] = [await lengthOf("identity"), await lengthOf("gzip, br")];
  expect(zipped[0]).toBe(plain[0]);
  expect(zipped[1]).toBeLessThan(plain[1] / 2);
});

test("a server without the option `page` serves no page", async () => {
  await using server = await serving({ worlds: [tally()] });
  expect((await fetch(server.url)).status).toBe(404);
  expect((await fetch(`${server.url}/page.js`)).status).toBe(404);
});
