// SPDX-License-Identifier: Apache-2.0

/** Public keys that a matchmaker has replaced by others. */
export interface EarlierKeys {
  /** The keys as a JWK set in JSON. */
  readonly jwks: string;
  /** Time on the matchmaker's clock until which their tokens are valid also for a seat that is not held. */
  readonly untilMs: number;
}

/** Maximum number of earlier JWK sets. */
export const maxEarlierKeys = 8;
/** Time for which the tokens of earlier keys are valid for a seat that is not held. */
export const earlierMs = 600_000;

/**
 * The public keys of a matchmaker, and those that it sent before: a matchmaker without a shared store has other keys after
 * a restart, but agents still have tokens that the earlier keys signed.
 */
export class PublicKeys {
  #current: string | undefined;
  #earlier: readonly EarlierKeys[] = [];

  /** The keys that the matchmaker sent last, as a JWK set in JSON; undefined before the first answer. */
  get current(): string | undefined {
    return this.#current;
  }

  /** The keys that were replaced, the latest ones first. */
  get earlier(): readonly EarlierKeys[] {
    return this.#earlier;
  }

  /** Replaces the current keys. */
  learn(jwks: string, nowMs: number): void {
    if (jwks === this.#current) {
      return;
    }
    const replaced =
      this.#current === undefined ? [] : [{ jwks: this.#current, untilMs: nowMs + earlierMs }];
    const others = this.#earlier.filter((keys) => keys.jwks !== jwks);
    this.#earlier = [...replaced, ...others].slice(0, maxEarlierKeys);
    this.#current = jwks;
  }
}
