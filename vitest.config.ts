// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync } from "node:fs";
import { defineConfig } from "vitest/config";

const projects = ["packages", "apps", "examples", "tests"]
  .filter((parent) => existsSync(parent))
  .flatMap((parent) => readdirSync(parent).map((name) => ({ name, root: `${parent}/${name}` })))
  .filter(({ root }) => existsSync(`${root}/package.json`));

export default defineConfig({
  test: {
    reporters: ["default", "json"],
    projects: projects.map(({ name, root }) => ({
      test: {
        name,
        root,
        include: ["src/**/*.test.ts"],
        testTimeout: 60_000,
        hookTimeout: 60_000,
        typecheck: {
          enabled: existsSync(`${root}/tsconfig.json`),
          include: ["src/**/*.test-d.ts"],
          tsconfig: "./tsconfig.json",
        },
      },
    })),
  },
});
