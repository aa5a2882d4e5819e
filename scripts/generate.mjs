// SPDX-License-Identifier: Apache-2.0
// Generates packages/protocol/src/gen from proto/. With --check it restores the files: it
// fails if the committed code differs from what proto/ generates, if the
// protocol breaks the released one, or if proto/ does not pass buf's lint.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

process.chdir(join(import.meta.dirname, ".."));
const generated = "packages/protocol/src/gen";
const run = (program, ...args) =>
  execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

try {
  run("buf", "generate");
  if (process.argv.includes("--check")) {
    const drift = run("git", "status", "--porcelain", "--", generated);
    if (drift !== "") {
      process.stderr.write(
        `${generated} is not what proto/ generates; run npm run generate:\n${drift}`,
      );
      process.exit(1);
    }
    run("buf", "lint");
    run("buf", "breaking", "--against", "proto/upstream/dm_env_rpc-1.1.6.binpb");
    process.stdout.write("generated code, lint and compatibility of proto/: all good\n");
  }
} catch (error) {
  process.stderr.write(`${error.stdout ?? ""}${error.message}\n`);
  process.exit(1);
}
