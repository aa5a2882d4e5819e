// SPDX-License-Identifier: Apache-2.0
import type { Random } from "../src/specs/sample.ts";

/** Creates a random source that is reproducible for a seed (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const upTo = (most: number, random: Random): number => Math.floor(random() * (most + 1));

/** Bytes with a special meaning in protobuf: ends of ranges, tags, continuations. */
const telling = [0, 1, 2, 7, 8, 10, 18, 26, 122, 0x7f, 0x80, 0x81, 0xfe, 0xff];

/** Changes, removes, doubles or cuts off a few of the bytes. */
export function mutate(bytes: Uint8Array, random: Random): Uint8Array {
  const mutated = [...bytes];
  for (let times = 1 + upTo(3, random); times > 0; times--) {
    const at = upTo(mutated.length, random);
    switch (upTo(6, random)) {
      case 0:
        mutated[at] = upTo(255, random);
        break;
      case 1:
        mutated[at] = telling[upTo(telling.length - 1, random)] as number;
        break;
      case 2:
        mutated.splice(at, 1 + upTo(4, random));
        break;
      case 3:
        mutated.splice(at, 0, ...mutated.slice(at, at + upTo(20, random)));
        break;
      case 4:
        mutated.splice(at, 0, telling[upTo(telling.length - 1, random)] as number);
        break;
      case 5:
        mutated[at] = (mutated[at] ?? 0) ^ (1 << upTo(7, random));
        break;
      default:
        mutated.length = at;
    }
  }
  return Uint8Array.from(mutated, (byte) => byte ?? 0);
}

/** Returns random bytes, half of them with a special meaning. */
export function noise(random: Random): Uint8Array {
  return Uint8Array.from({ length: upTo(60, random) }, () =>
    random() < 0.5 ? upTo(255, random) : (telling[upTo(telling.length - 1, random)] as number),
  );
}
