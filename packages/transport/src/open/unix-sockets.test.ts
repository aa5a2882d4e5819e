// SPDX-License-Identifier: Apache-2.0

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { errorOf } from "../testing/error-of.ts";
import { answerOf, named } from "../testing/messages.ts";
import { record } from "../testing/recorder.ts";
import { echo, serving } from "../testing/serving.ts";
import { openConnectStream } from "./open-connect-stream.ts";
import { openStream } from "./open-stream.ts";

/** Returns a path for a socket in a new folder. */
function socketFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "unix-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, "s.sock");
}

test.each([
  ["gRPC", openStream],
  ["Connect", openConnectStream],
])("%s streams over a Unix domain socket", async (_, open) => {
  const path = socketFile();
  await using server = await serving({ host: `unix:${path}` });
  expect(server.listener).toMatchObject({ url: `unix:${path}`, port: 0 });
  await using stream = await open(`unix://${path}`);
  expect(stream.address).toBe(`unix:${path}`);
  const answers = record(stream);
  stream.send(named("over a file"));
  const accepted = await server.next();
  expect(accepted.peer.address).toBe("unix:");
  expect(accepted.peer.metadata.get("user-agent")).toBeDefined();
  echo(accepted);
  await answers.seen("message");
  expect(answers.messages.map(answerOf)).toEqual(["over a file"]);
});

test("closing the listener removes the socket's file", async () => {
  const path = socketFile();
  const server = await serving({ host: `unix:${path}` });
  expect(existsSync(path)).toBe(true);
  await server[Symbol.asyncDispose]();
  expect(existsSync(path)).toBe(false);
  const error = await openStream(`unix:${path}`).catch(errorOf);
  expect(error).toMatchObject({ code: "UNAVAILABLE" });
  expect(String(error)).toContain(`no server listens on unix:${path}`);
});

test("the file that a killed server left behind is replaced", async () => {
  const path = socketFile();
  const listens = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", listens]);
  expect(existsSync(path)).toBe(true);
  await using server = await serving({ host: `unix:${path}` });
  await using stream = await openStream(server.listener.url);
  record(stream);
  record(await server.next());
});

test("the socket of a running server is not replaced, and neither is a file of another kind", async () => {
  const path = socketFile();
  await using server = await serving({ host: `unix:${path}` });
  const taken = await serving({ host: server.listener.url }).catch(errorOf);
  expect(taken).toMatchObject({ code: "UNAVAILABLE" });
  expect(String(taken)).toContain("expected a free path");
  const file = socketFile();
  writeFileSync(file, "kept");
  const other = await serving({ host: `unix:${file}` }).catch(errorOf);
  expect(String(other)).toContain("expected a free path");
  expect(readFileSync(file, "utf8")).toBe("kept");
});

test.each([
  [`/${"long".repeat(40)}`, "expected a path of at most about 100 bytes"],
  ["/no/such/folder/s.sock", "expected a folder that exists"],
])("the error of a path that cannot be listened on names the reason", async (path, reason) => {
  const error = await serving({ host: `unix:${path}` }).catch(errorOf);
  expect(error).toMatchObject({ code: "UNAVAILABLE" });
  expect(String(error)).toContain(`cannot listen on unix:${path}: ${reason}`);
});

test("TLS on a Unix domain socket is refused", async () => {
  const tls = { cert: "", key: "" };
  const error = await serving({ host: "unix:/tmp/s.sock", tls }).catch(errorOf);
  expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
});
