// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual } from "node:crypto";
import type { AuthorizeCall } from "@dm-env-rpc/matchmaker";

/** What makes a caller more than an agent, which all are. */
export interface Proofs {
  /** Makes an operator. */
  readonly operatorToken: string | undefined;
  /** Makes a server. */
  readonly serverToken: string | undefined;
  /** True if a certificate that was verified makes an operator. */
  readonly certificates: boolean;
}

/** Says what callers may do; undefined where everybody may do everything. */
export function authorizeBy({
  operatorToken,
  serverToken,
  certificates,
}: Proofs): AuthorizeCall | undefined {
  if (operatorToken === undefined && serverToken === undefined && !certificates) {
    return undefined;
  }
  const [ofOperator, ofServer] = [operatorToken, serverToken].map((token) =>
    token === undefined ? undefined : digest(`Bearer ${token}`),
  );
  return ({ metadata, certificate }) => {
    const sent = digest(metadata.get("authorization") ?? "");
    const shows = (wanted: Buffer | undefined): boolean =>
      wanted !== undefined && timingSafeEqual(sent, wanted);
    if (shows(ofOperator) || (certificates && certificate !== undefined)) {
      return ["agent", "server", "operator"];
    }
    return shows(ofServer) ? ["agent", "server"] : ["agent"];
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
