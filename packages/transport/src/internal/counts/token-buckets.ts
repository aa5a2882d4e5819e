// SPDX-License-Identifier: Apache-2.0

/** A full bucket holds the tokens that a key earns in this many seconds. */
const burstSeconds = 4;

/** Keys with full buckets are forgotten only once at least this many keys are remembered. */
const leastRemembered = 1_024;

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Limits the rate of each key with a token bucket, which refills with time. */
export class TokenBuckets {
  /** Tokens of a full bucket. */
  readonly burst: number;
  readonly #perSecond: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();
  #forgetAt = leastRemembered;

  /**
   * @param perSecond Tokens that each key earns in a second.
   * @param now Milliseconds of a clock. While it runs backwards, no tokens are earned.
   */
  constructor(perSecond: number, now: () => number) {
    this.burst = perSecond * burstSeconds;
    this.#perSecond = perSecond;
    this.#now = now;
  }

  /** Takes a token of a key. Returns false if the key has none. */
  take(key: string): boolean {
    const nowMs = this.#now();
    const bucket = this.#bucketOf(key, nowMs);
    bucket.tokens = this.#left(bucket, nowMs);
    bucket.atMs = nowMs;
    if (bucket.tokens < 1) {
      return false;
    }
    bucket.tokens -= 1;
    return true;
  }

  /** Number of keys that are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  #left({ tokens, atMs }: Bucket, nowMs: number): number {
    const earned = (Math.max(0, nowMs - atMs) / 1_000) * this.#perSecond;
    return Math.min(this.burst, tokens + earned);
  }

  #bucketOf(key: string, nowMs: number): Bucket {
    const known = this.#buckets.get(key);
    if (known !== undefined) {
      return known;
    }
    if (this.#buckets.size >= this.#forgetAt) {
      this.#forget(nowMs);
    }
    const bucket = { tokens: this.burst, atMs: nowMs };
    this.#buckets.set(key, bucket);
    return bucket;
  }

  /** Forgets the keys whose buckets are full again. */
  #forget(nowMs: number): void {
    for (const [key, bucket] of this.#buckets) {
      if (this.#left(bucket, nowMs) === this.burst) {
        this.#buckets.delete(key);
      }
    }
    this.#forgetAt = Math.max(leastRemembered, 2 * this.#buckets.size);
  }
}
