// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual } from "node:crypto";

/**
 * Returns the stored form of a caller's secret: its SHA-256 as hexadecimal digits; undefined for an
 * empty secret.
 */
export function hashOf(secret: string): string | undefined {
  return secret === "" ? undefined : createHash("sha256").update(secret).digest("hex");
}

/** Returns true if a secret matches a hash. Without a hash, any secret matches. */
export function isSecretOf(hash: string | undefined, secret: string): boolean {
  if (hash === undefined) {
    return true;
  }
  const [wanted, sent] = [Buffer.from(hash), Buffer.from(hashOf(secret) ?? "")];
  return wanted.length === sent.length && timingSafeEqual(wanted, sent);
}
