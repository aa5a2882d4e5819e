// SPDX-License-Identifier: Apache-2.0
import { equals, type Settings } from "@dm-env-rpc/tensor-codec";
import { packSettings, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";

/** True if two records of settings have the same names and values. */
export function sameSettings(a: Settings, b: Settings): boolean {
  const [one, other] = [packSettings(a), packSettings(b)];
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => {
      const [mine, theirs] = [one[name], other[name]];
      return (
        mine !== undefined &&
        theirs !== undefined &&
        equals(unpackTensor(mine), unpackTensor(theirs))
      );
    })
  );
}
