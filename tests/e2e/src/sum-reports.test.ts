// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const script = fileURLToPath(new URL("../../../scripts/sum-reports.mjs", import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reports-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(path: string, text: string): void {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function sum() {
  const { status, stdout } = spawnSync(process.execPath, [script, "logs"], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, stdout, last: stdout.trimEnd().split("\n").at(-1) };
}

/** Makes a Vitest report of three passed tests and, with `failure`, one failed test. */
function vitestReport(failure?: string): string {
  const failed = failure === undefined ? 0 : 1;
  const test = { ancestorTitles: ["a dog"], title: "barks", failureMessages: [failure] };
  return JSON.stringify({
    numTotalTests: 3 + failed,
    numPassedTests: 3,
    numFailedTests: failed,
    numPendingTests: 0,
    numTodoTests: 0,
    success: failed === 0,
    testResults: [
      {
        name: join(folder, "dog.test.ts"),
        status: failed === 0 ? "passed" : "failed",
        message: "",
        assertionResults: failed === 0 ? [] : [{ ...test, status: "failed" }],
      },
    ],
  });
}

describe("the sum of all reports", () => {
  it("is the last line, and succeeds if everything passed", () => {
    write("packages/dog/reports/vitest.json", vitestReport());
    write("packages/dog/reports/coverage/coverage-summary.json", "{}");
    expect(sum()).toMatchObject({ status: 0, last: "3 passed, 0 failed, 0 skipped" });
  });

  it("counts failures after their messages", () => {
    write("packages/dog/reports/vitest.json", vitestReport("expected a bark"));
    write(
      "tests/cat/reports/pytest.xml",
      `<testsuites><testsuite name="cat" errors="0" failures="1" skipped="1" tests="3">
        <testcase classname="cat" name="eats" />
        <testcase classname="cat" name="purrs"><failure message="">assert 1 &lt; 0</failure></testcase>
        <testcase classname="cat" name="swims"><skipped message="no water" /></testcase>
      </testsuite></testsuites>`,
    );
    write("logs/lint", "a rule was broken\n");
    const { status, stdout, last } = sum();
    expect(status).toBe(1);
    expect(last).toBe("4 passed, 3 failed, 1 skipped");
    expect(stdout).toMatch(/"lint" printed, which failed:\n {4}a rule was broken\n/);
    expect(stdout).toMatch(/^FAILED packages\/dog: .*a dog > barks\n {4}expected a bark$/m);
    expect(stdout).toMatch(/^FAILED tests\/cat: cat > purrs\n {4}assert 1 < 0$/m);
  });

  it("counts a truncated report, such as one of a killed process, as a failure", () => {
    write("packages/dog/reports/vitest.json", vitestReport());
    write("packages/cat/reports/vitest.json", vitestReport().slice(0, 40));
    const { status, stdout, last } = sum();
    expect(status).toBe(1);
    expect(last).toBe("3 passed, 1 failed, 0 skipped");
    expect(stdout).toContain("FAILED packages/cat: packages/cat/reports/vitest.json\n");
  });

  it("fails if nothing was tested", () => {
    expect(sum()).toMatchObject({ status: 1, last: "0 passed, 0 failed, 0 skipped" });
  });
});
