// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual, X509Certificate } from "node:crypto";
import type { AuthorizeCall, Caller, CallerRole } from "@dm-env-rpc/matchmaker";

/** Credentials that prove the role of a caller. */
export interface Proofs {
  /** Grants the role of an operator. */
  readonly operatorToken: string | undefined;
  /** Grants the role of a server. */
  readonly serverToken: string | undefined;
  /** Names of servers by token. A token grants the role of a server and identifies the caller by its name. */
  readonly serverTokens: ReadonlyMap<string, string> | undefined;
  /**
   * Names of the agents by token. If there are neither agent tokens nor an authority of agents,
   * every caller is an agent.
   */
  readonly agentTokens: ReadonlyMap<string, string> | undefined;
  /** Certificate authorities by the role that they grant, in PEM. */
  readonly authorities: ReadonlyMap<CallerRole, string>;
}

/**
 * Returns the function that determines the role of a caller; undefined if every caller has all
 * roles.
 */
export function authorizeBy(proofs: Proofs): AuthorizeCall | undefined {
  const { operatorToken, serverToken, serverTokens, agentTokens, authorities } = proofs;
  if (
    operatorToken === undefined &&
    serverToken === undefined &&
    serverTokens === undefined &&
    agentTokens === undefined &&
    authorities.size === 0
  ) {
    return undefined;
  }
  const isOpen = agentTokens === undefined && !authorities.has("agent");
  const rolesOf = (role: CallerRole): readonly CallerRole[] =>
    isOpen && role === "server" ? ["agent", role] : [role];
  const tokens = new Map<string, { readonly digest: Buffer; readonly caller: Caller }>();
  const know = (token: string | undefined, caller: Caller): void => {
    const sha256 = digest(`Bearer ${token}`);
    const key = sha256.toString("hex");
    if (token !== undefined && !tokens.has(key)) {
      tokens.set(key, { digest: sha256, caller });
    }
  };
  know(operatorToken, { roles: rolesOf("operator"), name: "operator token" });
  know(serverToken, { roles: rolesOf("server") });
  for (const [token, name] of serverTokens ?? []) {
    know(token, { roles: rolesOf("server"), identity: `server token ${name}` });
  }
  for (const [token, name] of agentTokens ?? []) {
    know(token, { roles: ["agent"], identity: `token ${name}` });
  }
  const byCertificate = certificateReader(authorities);
  return ({ metadata, certificate }) => {
    const sent = digest(metadata.get("authorization") ?? "");
    const known = tokens.get(sent.toString("hex"));
    const shown = known !== undefined && timingSafeEqual(sent, known.digest) ? known : undefined;
    if (shown !== undefined) {
      return shown.caller;
    }
    const found = certificate === undefined ? undefined : byCertificate(certificate);
    if (found === undefined) {
      return isOpen ? { roles: ["agent"] } : undefined;
    }
    const roles = rolesOf(found.role);
    const name = `certificate ${found.subject}`;
    return found.role === "operator" ? { roles, name } : { roles, identity: name };
  };
}

/**
 * Parses tokens of agents or servers: a name and a token per line. Empty lines and lines that begin with # are
 * ignored.
 */
export function readTokens(text: string, file: string): ReadonlyMap<string, string> {
  const tokens = new Map<string, string>();
  const names = new Set<string>();
  for (const [index, line] of text.split("\n").entries()) {
    const words = line.trim().split(/\s+/);
    const [name = "", token] = words;
    if (name === "" || name.startsWith("#")) {
      continue;
    }
    if (token === undefined || words.length > 2) {
      throw new Error(`${file}: line ${index + 1}: expected a name and a token`);
    }
    if (names.has(name) || tokens.has(token)) {
      throw new Error(
        `${file}: line ${index + 1}: expected a new name and a new token, received one of an earlier line`,
      );
    }
    names.add(name);
    tokens.set(token, name);
  }
  return tokens;
}

/**
 * Creates the function that returns the role of a verified certificate. If only one role has an
 * authority, every certificate has that role. Otherwise a certificate has the role of the authority
 * that issued it directly, or none.
 */
function certificateReader(
  authorities: ReadonlyMap<CallerRole, string>,
): (
  certificate: Uint8Array,
) => { readonly role: CallerRole; readonly subject: string } | undefined {
  const roles = [...authorities].map(([role, pem]) => ({ role, issuers: certificatesIn(pem) }));
  return (der) => {
    const certificate = new X509Certificate(der);
    const isIssuedBy = (issuer: X509Certificate): boolean =>
      certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
    const found =
      roles.length === 1 ? roles[0] : roles.find(({ issuers }) => issuers.some(isIssuedBy));
    const subject = certificate.subject.replaceAll("\n", ", ");
    return found && { role: found.role, subject };
  };
}

function certificatesIn(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
