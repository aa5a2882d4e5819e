// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate and its key, PEM. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** An authority, and a server's and two clients' certificates that it signed. */
export interface Certificates {
  readonly authority: string;
  readonly server: Pair;
  readonly agent: Pair;
  readonly operator: Pair;
}

/**
 * Returns why certificates cannot be created, if `openssl` is not installed; tests that need them
 * are skipped.
 */
export function opensslMissing(): string | undefined {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" });
    return undefined;
  } catch (error) {
    return `openssl cannot be run: ${String(error)}`;
  }
}

/** Creates certificates for localhost, valid for a day. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), "dm-env-rpc-"));
  const at = (file: string): string => join(folder, file);
  const read = (file: string): string => readFileSync(at(file), "utf8");
  const openssl = (...args: string[]): void => {
    execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  };
  const make = (name: string, ...options: readonly string[]): void => {
    openssl(
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
      ...["-days", "1", "-subj", `/CN=${name}`],
      ...options,
      ...["-keyout", at(`${name}.key`), "-out", at(`${name}.pem`)],
    );
  };
  const issue = (name: string): Pair => {
    make(
      name,
      ...["-CA", at("authority.pem"), "-CAkey", at("authority.key")],
      ...["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ...["-addext", "basicConstraints=critical,CA:FALSE"],
    );
    return { cert: read(`${name}.pem`), key: read(`${name}.key`) };
  };
  try {
    make("authority");
    return {
      authority: read("authority.pem"),
      server: issue("localhost"),
      agent: issue("agent"),
      operator: issue("operator"),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
