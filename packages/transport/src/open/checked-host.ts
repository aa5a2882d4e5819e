// SPDX-License-Identifier: Apache-2.0
import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { toError } from "../internal/thrown.ts";
import type { Address } from "../stream/address.ts";
import type { ConnectionOptions } from "./open-options.ts";

/**
 * Returns the option of node:net that calls `checkIp` with each address of a host before the connection is made.
 *
 * @throws The error of `checkIp` for a host that is an IP address, because node:net looks up only names.
 */
export function checkedHost(
  { host, path }: Address,
  checkIp: ConnectionOptions["checkIp"],
): { readonly lookup?: LookupFunction } {
  if (checkIp === undefined || path !== undefined) {
    return {};
  }
  if (isIP(host) !== 0) {
    checkIp(host);
    return {};
  }
  return {
    lookup: (name, options, done) => {
      lookup(name, { ...options, all: true }, (failure, found) => {
        const [first] = found ?? [];
        if (failure !== null || first === undefined) {
          done(failure ?? new Error(`the host ${name} has no address`), []);
          return;
        }
        try {
          for (const { address } of found) {
            checkIp(address);
          }
        } catch (error) {
          done(toError(error), []);
          return;
        }
        if (options.all === true) {
          done(null, found);
        } else {
          done(null, first.address, first.family);
        }
      });
    },
  };
}
