// SPDX-License-Identifier: Apache-2.0

/** A source of numbers, uniform in [0, 1). */
export type Random = () => number;

/**
 * Makes a reproducible source: the same seed and stream give the same numbers, on every
 * machine; different streams of one seed are independent. sfc32 (Doty-Humphrey,
 * PractRand), two outputs to the 53 bits of a number. Not for secrets.
 *
 * @param seed Only its lowest 64 bits are used.
 * @param stream A non-negative integer: one for each agent.
 */
export function randomSource(seed: bigint, stream: number): Random {
  let a = Number(BigInt.asUintN(32, seed)) | 0;
  let b = Number(BigInt.asUintN(32, seed >> 32n)) | 0;
  let c = stream | 0;
  let counter = 1;
  const next32 = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  // The warm-up of sfc32's author: after it, every bit of the seed has affected every bit of the state.
  for (let i = 0; i < 15; i++) {
    next32();
  }
  return () => ((next32() >>> 5) * 0x4000000 + (next32() >>> 6)) / 0x20000000000000;
}
