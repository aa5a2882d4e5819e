// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual, X509Certificate } from "node:crypto";
import type { AuthorizeCall, Caller, CallerRole } from "@dm-env-rpc/matchmaker";

/** Credentials that prove the role of a caller. */
export interface Proofs {
  /** Makes an operator. */
  readonly operatorToken: string | undefined;
  /** Makes a server. */
  readonly serverToken: string | undefined;
  /** The name of each agent, by its token. Without tokens and an authority of agents, everybody is an agent. */
  readonly agentTokens: ReadonlyMap<string, string> | undefined;
  /** The authorities whose certificates make a caller of a role, PEM. */
  readonly authorities: ReadonlyMap<CallerRole, string>;
}

/** Returns the function that says who callers are; undefined where everybody may do everything. */
export function authorizeBy(proofs: Proofs): AuthorizeCall | undefined {
  const { operatorToken, serverToken, agentTokens, authorities } = proofs;
  if (
    operatorToken === undefined &&
    serverToken === undefined &&
    agentTokens === undefined &&
    authorities.size === 0
  ) {
    return undefined;
  }
  const isOpen = agentTokens === undefined && !authorities.has("agent");
  const rolesOf = (role: CallerRole): readonly CallerRole[] => {
    const roles: readonly CallerRole[] = role === "operator" ? ["server", "operator"] : [role];
    return isOpen || role === "operator" ? ["agent", ...roles] : roles;
  };
  const tokens: { readonly digest: Buffer; readonly caller: Caller }[] = [];
  const know = (token: string | undefined, caller: Caller): void => {
    if (token !== undefined) {
      tokens.push({ digest: digest(`Bearer ${token}`), caller });
    }
  };
  know(operatorToken, { roles: rolesOf("operator") });
  know(serverToken, { roles: rolesOf("server") });
  for (const [token, name] of agentTokens ?? []) {
    know(token, { roles: ["agent"], identity: `token ${name}` });
  }
  const byCertificate = certificateReader(authorities);
  return ({ metadata, certificate }) => {
    const sent = digest(metadata.get("authorization") ?? "");
    const shown = tokens.find(({ digest: wanted }) => timingSafeEqual(sent, wanted));
    if (shown !== undefined) {
      return shown.caller;
    }
    const found = certificate === undefined ? undefined : byCertificate(certificate);
    if (found === undefined) {
      return isOpen ? { roles: ["agent"] } : undefined;
    }
    const roles = rolesOf(found.role);
    return found.role === "agent" ? { roles, identity: `certificate ${found.subject}` } : { roles };
  };
}

/** Reads an agent's tokens: a name and a token on each line; lines that are empty or begin with # are passed over. */
export function readAgentTokens(text: string, file: string): ReadonlyMap<string, string> {
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
      throw new Error(`${file}: line ${index + 1}: its name or its token is on an earlier line`);
    }
    names.add(name);
    tokens.set(token, name);
  }
  return tokens;
}

/**
 * Makes the function that finds the role of a verified certificate. With one authority it is that one's; with several, that of
 * the one that issued it, and a certificate that none of them issued itself has no role.
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
