// SPDX-License-Identifier: Apache-2.0

/** A seeded source of random numbers: the same seed gives the same numbers, on every machine. */
export interface SeededRandom {
  /** The latest seed. */
  readonly seed: bigint;
  /** Uniform in [0, 1), a multiple of 2^-53. */
  next(): number;
  /** A uniform integer from `min` to `max`, both included. */
  integer(min: number, max: number): number;
}

const mask64 = (1n << 64n) - 1n;

/** The next 32 bits of SplitMix64 (Steele, Lea & Flood 2014), which spreads a seed over a state. */
function* splitMix(seed: bigint): Generator<number, never> {
  let state = seed & mask64;
  for (;;) {
    state = (state + 0x9e3779b97f4a7c15n) & mask64;
    let mixed = state;
    mixed = ((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n) & mask64;
    mixed = ((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn) & mask64;
    mixed ^= mixed >> 31n;
    yield Number(mixed & 0xffffffffn);
    yield Number(mixed >> 32n);
  }
}

const rotateLeft = (x: number, bits: number): number => (x << bits) | (x >>> (32 - bits));

/** A source of random numbers that its owner can reseed. */
export interface Reseedable {
  readonly random: SeededRandom;
  /** Restarts the source with another seed. */
  reseed(seed: bigint): void;
}

/**
 * Creates a source of random numbers from a seed of 64 bits (xoshiro128**, Blackman & Vigna 2018).
 * Not for secrets.
 */
export function seededRandom(seed: bigint): SeededRandom {
  return reseedable(seed).random;
}

/** Creates a source that its owner can reseed. */
export function reseedable(first: bigint): Reseedable {
  let seed = first;
  let [a, b, c, d] = [0, 0, 0, 0];
  const reseed = (another: bigint): void => {
    seed = another;
    const spread = splitMix(another);
    a = spread.next().value;
    b = spread.next().value;
    c = spread.next().value;
    d = spread.next().value;
  };
  const next32 = (): number => {
    const result = Math.imul(rotateLeft(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotateLeft(d, 11);
    return result;
  };
  const next = (): number => {
    const high = next32() >>> 5;
    return (high * 67108864 + (next32() >>> 6)) / 9007199254740992;
  };
  reseed(first);
  const random: SeededRandom = {
    get seed() {
      return seed;
    },
    next,
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
  };
  return { random, reseed };
}
