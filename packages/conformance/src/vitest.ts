// SPDX-License-Identifier: Apache-2.0
/** Runs the checks as a Vitest suite. */
import { afterAll, beforeAll, describe, it } from "vitest";
import type { ConformanceConfig } from "./config.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { resultText } from "./report/table.ts";
import { reach, runCheck, selectChecks } from "./run.ts";

/** A server to check. */
export interface ServerUnderTest {
  /** `host:port`, or a URL. */
  readonly address: string;
  /** Stops the server after the last check. */
  close?(): unknown;
}

/** Options of `describeConformance`. */
export interface DescribeOptions {
  /** Name of the suite. Default "conformance". */
  readonly name?: string | undefined;
  /** Starts the server before the first check. */
  readonly start: () => ServerUnderTest | Promise<ServerUnderTest>;
  readonly config?: ConformanceConfig | undefined;
  readonly protocol?: ProtocolName | undefined;
  /** Declares only checks whose id or title contains this text. */
  readonly filter?: string | undefined;
}

/**
 * Declares a Vitest suite with a test for each check that applies to the server. A check in `knownFailing`
 * must fail. A check that needs something that the world lacks is skipped, with the reason on standard error.
 *
 * @example
 * describeConformance({
 *   config: { agents: 2, clock: "lockstep" },
 *   start: async () => {
 *     const server = await serve({ worlds: [world] });
 *     return { address: server.url, close: () => server.close() };
 *   },
 * });
 */
export function describeConformance(options: DescribeOptions): void {
  const { name = "conformance", start, config = {}, protocol = "grpc", filter } = options;
  describe(name, () => {
    let server: ServerUnderTest | undefined;
    beforeAll(async () => {
      server = await start();
      await reach(server.address, protocol, config);
    });
    const skipped: string[] = [];
    afterAll(async () => {
      await server?.close?.();
      if (skipped.length > 0) {
        process.stderr.write(`skipped in ${name}: ${skipped.join("; ")}\n`);
      }
    });
    for (const check of selectChecks(filter)) {
      if (check.notFor?.(config, protocol) !== undefined) {
        continue;
      }
      it(`${check.id}: ${check.title}`, { timeout: 60_000 }, async ({ skip }) => {
        const result = await runCheck(check, { address: server?.address ?? "", protocol, config });
        const { outcome } = result;
        if (outcome.kind === "not-applicable") {
          skipped.push(`${check.id}, ${outcome.reason}`);
          skip(outcome.reason);
        }
        const { kind } = outcome;
        if (kind === "failed" || kind === "unexpected-pass") {
          throw new Error(resultText(result));
        }
      });
    }
  });
}
