// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, Program, run } from "@dm-env-rpc/tests-processes";
import { expect, it, onTestFinished } from "vitest";
import { deploy, root } from "./paths.ts";

const gridworld = join(root, "apps/gridworld-server/dist/main.js");

function askHealth(...args: string[]): Promise<Outcome> {
  return new Program(process.execPath, [join(deploy, "docker/health.ts"), ...args]).outcome();
}

it("connects over TLS, for any name in the certificate", async () => {
  const folder = await mkdtemp(join(tmpdir(), "health-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [cert, key] = [join(folder, "tls.crt"), join(folder, "tls.key")];
  await run("openssl", [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
    ...["-days", "1", "-subj", "/CN=gridworld.example", "-keyout", key, "-out", cert],
  ]);
  const tls = ["--tls-cert", cert, "--tls-key", key];
  await using server = new Program(process.execPath, [gridworld, "--port", "0", ...tls]);
  const url = await server.says(/^listening on (https:\S+)$/m);
  expect(await askHealth(url)).toEqual({ status: 0, stdout: "", stderr: "" });
});

it("reports an unreachable server and invalid arguments", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => void silent.close());
  const address = silent.address();
  if (address === null || typeof address === "string") {
    throw new Error("expected a TCP address");
  }
  const silence = await askHealth(`http://127.0.0.1:${address.port}`);
  expect(silence).toMatchObject({ status: 1, stdout: "" });
  expect(silence.stderr).toMatch(
    /^http:\/\/127\.0\.0\.1:\d+ does not answer: expected a response within 3000 ms, received none\n$/,
  );
  expect(await askHealth()).toMatchObject({
    status: 1,
    stderr: "usage: node health.ts URL [SERVICE]\n",
  });
});
