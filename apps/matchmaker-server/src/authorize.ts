// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual } from "node:crypto";
import type { AuthorizeCall } from "@dm-env-rpc/matchmaker";

/** Who is an operator: whoever sends the token, or has a certificate that was verified. Agents are all. */
export interface OperatorProofs {
  readonly token: string | undefined;
  /** Whether certificates of the operators' authority are asked for. */
  readonly certificates: boolean;
}

/** Says what callers may do; undefined where everybody may do everything. */
export function authorizeBy({ token, certificates }: OperatorProofs): AuthorizeCall | undefined {
  if (token === undefined && !certificates) return undefined;
  const wanted = token === undefined ? undefined : digest(`Bearer ${token}`);
  return ({ metadata, certificate }) => {
    const sent = metadata.get("authorization");
    const hasToken =
      wanted !== undefined && sent !== undefined && timingSafeEqual(digest(sent), wanted);
    const hasCertificate = certificates && certificate !== undefined;
    return hasToken || hasCertificate ? ["agent", "operator"] : ["agent"];
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
