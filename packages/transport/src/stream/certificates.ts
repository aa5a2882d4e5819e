// SPDX-License-Identifier: Apache-2.0
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf } from "../internal/index.ts";

type Pem = string | Uint8Array;

/** Certificates and key of an option `tls`, in PEM. */
interface Certificates {
  readonly ca?: Pem | readonly Pem[] | undefined;
  readonly cert?: Pem | undefined;
  readonly key?: Pem | undefined;
  readonly passphrase?: string | undefined;
}

/** Certificates and key as options of node:tls. */
interface TlsCertificates {
  readonly ca?: Buffer[];
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly passphrase?: string;
}

/** A certificate in PEM; without its last line, if the text ends first. */
const certificateBlocks =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?(?:-----END [^-]*-----|$)/g;

/**
 * Returns the certificates and the key of an option `tls` for node:tls, which itself ignores malformed authorities.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT of origin `client` that names the malformed option.
 */
export function checkedCertificates(tls: Certificates): TlsCertificates {
  const ca = tls.ca === undefined ? undefined : [tls.ca].flat().map((pem) => Buffer.from(pem));
  const cert = tls.cert === undefined ? undefined : Buffer.from(tls.cert);
  const key = tls.key === undefined ? undefined : Buffer.from(tls.key);
  const passphrase = tls.passphrase === undefined ? {} : { passphrase: tls.passphrase };
  for (const pem of ca ?? []) {
    check("option tls.ca: expected certificates in PEM", () => parseCertificates(pem));
  }
  if (cert !== undefined) {
    check("option tls.cert: expected a certificate in PEM", () => parseCertificates(cert));
  }
  if (key !== undefined) {
    const expected = "expected a private key in PEM, and tls.passphrase if it is encrypted";
    check(`option tls.key: ${expected}`, () => createPrivateKey({ key, ...passphrase }));
  }
  if (cert !== undefined && key !== undefined) {
    const expected = "expected a certificate and its private key";
    check(`options tls.cert and tls.key: ${expected}`, () =>
      createSecureContext({ cert, key, ...passphrase }),
    );
  }
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), ...passphrase };
}

function parseCertificates(pem: Buffer): void {
  const blocks = pem.toString("latin1").match(certificateBlocks);
  if (blocks === null) {
    throw new Error("no certificate");
  }
  for (const block of blocks) {
    new X509Certificate(block);
  }
}

/** Throws INVALID_ARGUMENT that begins with `expectation` if `parse` throws. */
function check(expectation: string, parse: () => unknown): void {
  try {
    parse();
  } catch (cause) {
    throw new DmEnvRpcError("INVALID_ARGUMENT", `${expectation}, received ${messageOf(cause)}`, {
      origin: "client",
      cause,
    });
  }
}
