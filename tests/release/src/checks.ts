// SPDX-License-Identifier: Apache-2.0

/** Result of one check. */
export interface Result {
  readonly name: string;
  readonly error: string | undefined;
}

/** Collects the results of checks and prints each of them. */
export class Checks {
  readonly results: Result[] = [];

  /** Runs a check that throws on failure; returns true if it passed. */
  async check(name: string, body: () => Promise<void>): Promise<boolean> {
    let error: string | undefined;
    try {
      await body();
    } catch (cause) {
      error = cause instanceof Error ? cause.message : String(cause);
    }
    this.results.push({ name, error });
    process.stdout.write(
      error === undefined ? `ok    ${name}\n` : `FAIL  ${name}\n${indent(error)}\n`,
    );
    return error === undefined;
  }

  get failed(): readonly Result[] {
    return this.results.filter(({ error }) => error !== undefined);
  }
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, "        ");
}
