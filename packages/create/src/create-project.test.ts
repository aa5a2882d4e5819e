// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const own = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "create-"));
  onTestFinished(() => rm(folder, { recursive: true }));
});

function create(...args: string[]) {
  return spawnSync(process.execPath, [main, ...args], { cwd: folder, encoding: "utf8" });
}

describe("create", () => {
  it("creates a project with the folder's name and prints the next commands", async () => {
    const { status, stdout, stderr } = create("worlds/my-coins");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(
      /^Created my-coins\. Next:\n\n {2}cd worlds\/my-coins\n {2}npm install\n/,
    );
    const project = join(folder, "worlds/my-coins");
    expect((await readdir(project)).sort()).toEqual([
      ".dockerignore",
      ".gitignore",
      "Dockerfile",
      "README.md",
      "package.json",
      "src",
      "tsconfig.json",
    ]);
    const text = await readFile(join(project, "package.json"), "utf8");
    expect(JSON.parse(text).name).toBe("my-coins");
    expect(text).not.toContain("workspace:");
    expect(text).toMatch(/\}\n$/);
    const readme = await readFile(join(project, "README.md"), "utf8");
    expect(readme).toMatch(/^# my-coins\n/);
    expect(readme).not.toContain("my-world");
  });

  it("depends on dm-env-rpc packages of its own version", async () => {
    create("my-world");
    const { dependencies, devDependencies } = JSON.parse(
      await readFile(join(folder, "my-world/package.json"), "utf8"),
    );
    const versions = Object.entries({ ...dependencies, ...devDependencies })
      .filter(([name]) => name.startsWith("@dm-env-rpc/"))
      .map(([, version]) => version);
    expect(versions).toEqual(Array(6).fill(`^${own.version}`));
  });

  it("depends on the versions of other packages that this repository tests with", async () => {
    const catalog = await readFile(
      new URL("../../../pnpm-workspace.yaml", import.meta.url),
      "utf8",
    );
    const { dependencies, devDependencies } = JSON.parse(
      await readFile(new URL("../template/package.json", import.meta.url), "utf8"),
    );
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      if (name.startsWith("@dm-env-rpc/")) {
        expect(version, name).toBe("workspace:^");
      } else {
        const line = `^ {2}"?${name}"?: \\^?${String(version).slice(1)}$`;
        expect(catalog).toMatch(new RegExp(line, "m"));
      }
    }
  });

  it("accepts the current folder with a new Git repository in it", async () => {
    await mkdir(join(folder, "here/.git"), { recursive: true });
    const { status, stdout } = spawnSync(process.execPath, [main, "."], {
      cwd: join(folder, "here"),
      encoding: "utf8",
    });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Created here\. Next:\n\n {2}npm install\n/);
  });

  it.each([
    [[], /expected one folder, received none; try: npm create/],
    [["one", "two"], /received "one" "two"/],
    [["full"], /expected an empty folder, but "full" has mine\.txt in it/],
    [["full/mine.txt"], /"full\/mine\.txt" is a file/],
    [["My World"], /valid npm package name.*received "My World".*capital/],
    [["node_modules"], /received "node_modules"/],
    [["--template", "x"], /Unknown option '--template'; see .* --help/],
  ])("refuses %j with an error of one line and writes nothing", async (args, message) => {
    await mkdir(join(folder, "full"));
    await writeFile(join(folder, "full/mine.txt"), "");
    const { status, stdout, stderr } = create(...args);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toMatch(message);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect((await readdir(folder, { recursive: true })).sort()).toEqual(["full", "full/mine.txt"]);
  });

  it("prints its usage and its version", () => {
    expect(create("--help").stdout).toMatch(/^usage: npm create @dm-env-rpc FOLDER$/m);
    expect(create("--version").stdout).toBe(`${own.version}\n`);
  });
});
