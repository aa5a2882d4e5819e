// SPDX-License-Identifier: Apache-2.0
// npm run deploy:check: creates a project with the packed packages, executes the steps of the
// Dockerfiles, and checks the manifests of deploy/. Its tools come from PyPI and the Go module
// proxy into tests/deploy/.venv. It needs no container engine and no cluster.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const folder = "tests/deploy";
const bin = resolve(folder, ".venv/bin");
/** Programs that exist only as Go modules, by the file that `go install` makes. */
const modules = {
  kustomize: "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1",
  // The loader of `docker compose`, whose program has this name.
  cmd: "github.com/compose-spec/compose-go/v2/cmd@v2.16.2",
};

run("node", ["scripts/python.mjs", "--in", folder, "--version"]);
for (const [file, module] of Object.entries(modules)) {
  if (existsSync(resolve(bin, file))) {
    continue;
  }
  process.stderr.write(`building ${module} …\n`);
  const env = { ...process.env, GOBIN: bin, GOTOOLCHAIN: "local", GOFLAGS: "-trimpath" };
  run(resolve(bin, "go"), ["install", module], env);
}
run("vitest", ["run", "--project", "deploy", `--outputFile.json=${folder}/reports/vitest.json`]);

function run(program, args, env = process.env) {
  const { status, error } = spawnSync(program, args, { stdio: "inherit", env });
  if (error !== undefined) {
    process.stderr.write(`${program}: ${error.message}\n`);
  }
  if (status !== 0) {
    process.exit(status ?? 1);
  }
}
