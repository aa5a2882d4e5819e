// SPDX-License-Identifier: Apache-2.0
import { shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";
import type { Labels, ServerRecord } from "../model/model.ts";

const maxLabels = 100;

/** A key, as in Kubernetes: a name, optionally with the prefix `DNS-NAME/`. */
const keyPattern =
  /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;
const valuePattern = /^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/;

/**
 * Checks labels by the rules of Kubernetes.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the label.
 */
export function checkLabels(what: string, labels: Labels): void {
  const entries = Object.entries(labels);
  if (entries.length > maxLabels) {
    throw invalid(what, `at most ${maxLabels}`, String(entries.length));
  }
  for (const [key, value] of entries) {
    if (!keyPattern.test(key)) {
      throw invalid(
        what,
        'keys like "tier" or "example.org/tier": 1 to 63 letters, digits, "-", "_" or ".", starting and ending with a letter or digit',
        `"${shorten(key)}"; rename the key`,
      );
    }
    if (!valuePattern.test(value)) {
      throw invalid(
        `${what} "${shorten(key)}"`,
        'an empty value or one like "large-2": up to 63 letters, digits, "-", "_" or ".", starting and ending with a letter or digit',
        `"${shorten(value)}"; change the value`,
      );
    }
  }
}

/** Returns true if a server has all of the given labels. */
export function hasLabels({ labels = {} }: Pick<ServerRecord, "labels">, wanted: Labels): boolean {
  return Object.entries(wanted).every(
    ([key, value]) => Object.hasOwn(labels, key) && labels[key] === value,
  );
}
