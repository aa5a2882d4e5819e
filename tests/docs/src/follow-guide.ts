// SPDX-License-Identifier: Apache-2.0
// Follows a guide in an empty folder, using only what the page shows and the packages as they would be published:
//
//   node tests/docs/src/follow-guide.ts docs/expose-your-game.md
//
// Four things differ from a reader's steps. The packages come from a registry on this machine. The port is a free one.
// The clone beside the folder is this one. If tests/interop has a Python venv, and the page does not install the
// Python package of this repository, that venv is used.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "@dm-env-rpc/tests-processes";
import { at, type Block, readPage, root } from "./pages.ts";
import { serveRegistry } from "./registry.ts";

const [path] = process.argv.slice(2);
if (path === undefined) {
  throw new Error("the page is missing: node tests/docs/src/follow-guide.ts PAGE");
}
const page = readPage(path);
/** The path at which pages expect a clone of this repository. */
const clone = "../dm-env-rpc/";
const venv = join(root, "tests/interop/.venv");

const installsPackage = page.text.includes(`pip install ${clone}`);
const folder = mkdtempSync(join(tmpdir(), "guide-"));
const servers: ChildProcess[] = [];
const registry = await serveRegistry(folder);
let cwd = folder;
const port = await freePort();
try {
  useRegistry();
  let output = "";
  for (const block of page.blocks) {
    const text = block.lines.join("\n").replaceAll("8980", `${port}`);
    if (block.file !== undefined) {
      writeFileSync(join(cwd, block.file), `${text}\n`);
    } else if (block.language === "sh") {
      output = "";
      for (const line of text.split("\n")) {
        output += await follow(line);
      }
    } else if (block.language === "text") {
      expectOutput(block, output);
    }
  }
  say("followed to the end\n");
} finally {
  for (const server of servers) {
    server.kill("SIGTERM");
    await once(server, "close");
  }
  await registry.close();
  rmSync(folder, { recursive: true });
}

/** Executes a line of a shell block and returns its output. */
async function follow(line: string): Promise<string> {
  say(`$ ${line}\n`);
  const words = line.split(" ");
  if (words[0] === "cd") {
    cwd = join(cwd, words[1] ?? "");
    useRegistry();
    return "";
  }
  if (line === "node server.ts" || line === "npm start") {
    await startServer(line === "npm start" ? ["src/main.ts", "--port", `${port}`] : ["server.ts"]);
    return "";
  }
  if (
    existsSync(venv) &&
    !installsPackage &&
    line.includes(".venv") &&
    !line.startsWith(".venv/bin/python ")
  ) {
    if (!existsSync(join(cwd, ".venv"))) {
      symlinkSync(venv, join(cwd, ".venv"));
    }
    return "";
  }
  if (line.startsWith("npm install")) {
    return shell(`${line} --no-audit --no-fund`);
  }
  return shell(line.replace("npm create ", "npm create --yes ").replace(clone, root));
}

function useRegistry(): void {
  writeFileSync(join(cwd, ".npmrc"), `@dm-env-rpc:registry=${registry.url}\n`);
}

/** Runs a command asynchronously, because this process also serves the registry. */
async function shell(command: string): Promise<string> {
  const child = spawn("bash", ["-c", command], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
    say(text);
  });
  const [code] = await once(child, "close");
  if (code !== 0) {
    throw new Error(`"${command}" ended with exit code ${code}`);
  }
  return printed;
}

async function startServer(args: readonly string[]): Promise<void> {
  const server = spawn(process.execPath, args, {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  servers.push(server);
  const first = await Promise.race([
    once(server.stdout, "data").then(([text]) => String(text)),
    once(server, "close").then(([code]) => `ended with exit code ${code}`),
  ]);
  say(first);
  if (!first.startsWith("listening on ")) {
    throw new Error(`the server does not listen: ${first}`);
  }
}

function expectOutput({ line, lines }: Block, output: string): void {
  for (const expected of lines) {
    if (output.includes(expected)) {
      continue;
    }
    const received = output.trim().split("\n").slice(-3).join("\n");
    throw new Error(`${at(page, line)}: expected "${expected}", received "${received}"`);
  }
}

function say(text: string): void {
  process.stdout.write(text);
}
