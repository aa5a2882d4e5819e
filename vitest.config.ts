// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const folders = ["packages", "apps", "examples", "tests"]
  .map((parent) => join(import.meta.dirname, parent))
  .filter((parent) => existsSync(parent))
  .flatMap((parent) => readdirSync(parent).map((name) => ({ name, root: join(parent, name) })))
  .filter(({ root }) => existsSync(join(root, "tsconfig.json")) && existsSync(join(root, "src")));

export default defineConfig({
  test: {
    reporters: ["default", "json"],
    coverage: {
      include: ["src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.test-d.ts", "**/testing/**", "**/gen/**"],
      reporter: ["json-summary", "lcov"],
      reportOnFailure: true,
    },
    projects: folders.map(({ name, root }) => ({
      test: {
        name,
        root,
        include: ["src/**/*.test.ts"],
        // Machines stand still for seconds: what takes longer than this does not happen at all.
        testTimeout: 180_000,
        hookTimeout: 180_000,
        expect: { poll: { timeout: 60_000 } },
        typecheck: {
          enabled: readdirSync(join(root, "src"), { recursive: true }).some((file) =>
            String(file).endsWith(".test-d.ts"),
          ),
          include: ["src/**/*.test-d.ts"],
          tsconfig: "./tsconfig.json",
        },
      },
    })),
  },
});
