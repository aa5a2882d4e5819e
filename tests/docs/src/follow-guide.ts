// SPDX-License-Identifier: Apache-2.0
// Follows a guide in an empty folder, using only what the page shows and the packages as they would be published:
//
//   node tests/docs/src/follow-guide.ts docs/expose-your-game.md
//
// Five things differ from a reader's steps. The packages come from a registry on this machine. The ports are free ones.
// The clone beside the folder is this one. If tests/interop has a Python venv, and the page does not install the
// Python package of this repository, that venv is used. A page that Vite opens is opened in a Chromium without a window, and
// its title is the output.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { freePort } from "@dm-env-rpc/tests-processes";
import { chromium, type OpenedPage, openPage } from "@dm-env-rpc/tests-processes/browser";
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
const opened: OpenedPage[] = [];
const registry = await serveRegistry(folder);
let cwd = folder;
let isViteStarted = false;
/** A machine may pause for seconds. */
const waiting = { timeout: 120_000 };
/** Free ports for those that pages show. */
const ports = new Map<string, string>();
for (const shown of ["8980", "8970", "9000", "5173"]) {
  ports.set(shown, `${await freePort()}`);
}
try {
  useRegistry();
  let output = "";
  for (const block of page.blocks) {
    const text = withFreePorts(block.lines.join("\n"));
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
  for (const page of opened) {
    await page[Symbol.asyncDispose]();
  }
  for (const server of servers) {
    await stop(server);
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
  if (/^node (server|relay)\.ts$/.test(line)) {
    await startServer(process.execPath, words.slice(1), "listening on ");
    return "";
  }
  if (line === "npm start") {
    const args = ["src/main.ts", "--port", withFreePorts("8980")];
    await startServer(process.execPath, args, "listening on ");
    return "";
  }
  if (words[1] === "vite") {
    return await openInChromium(words);
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

/** Starts a server, and waits until its output has a text. */
async function startServer(
  program: string,
  args: readonly string[],
  ready: string,
): Promise<ChildProcess> {
  const server = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "inherit"] });
  servers.push(server);
  let output = "";
  const listening = new Promise<boolean>((resolve) => {
    server.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      say(text);
      // Vite colours its words where CI is set.
      if (stripVTControlCharacters(output).includes(ready)) {
        resolve(true);
      }
    });
    server.once("close", () => resolve(false));
  });
  const deadline = setTimeout(() => server.kill("SIGKILL"), waiting.timeout);
  const isListening = await listening;
  clearTimeout(deadline);
  if (!isListening) {
    throw new Error(`the server does not listen: ${output}`);
  }
  return server;
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode === null && server.signalCode === null) {
    server.kill("SIGTERM");
    await once(server, "close");
  }
}

/**
 * Runs `npx vite --port PORT --open PATH` until the page has changed its title.
 *
 * @returns The title.
 */
async function openInChromium(words: readonly string[]): Promise<string> {
  for (const page of opened.splice(0)) {
    await page[Symbol.asyncDispose]();
  }
  const [, , , port, , path] = words;
  const vite = ["node_modules/vite/bin/vite.js", "--port", `${port}`, "--strictPort"];
  if (!isViteStarted) {
    isViteStarted = true;
    await startServer(process.execPath, vite, "Local:");
  }
  const page = await openPage(chromium(), `http://localhost:${port}${path}`);
  opened.push(page);
  const first = /<title>(.*)<\/title>/.exec(readFileSync(join(cwd, fileOf(path)), "utf8"))?.[1];
  await page.page.waitForFunction((title) => ![title, ""].includes(document.title), waiting, first);
  const title = await page.page.title();
  say(`${title}\n`);
  return title;
}

function fileOf(path = "/"): string {
  return path === "/" ? "index.html" : path.slice(1);
}

function withFreePorts(text: string): string {
  return [...ports].reduce((changed, [shown, free]) => changed.replaceAll(shown, free), text);
}

function expectOutput({ line, lines }: Block, output: string): void {
  for (const expected of lines.map(withFreePorts)) {
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
