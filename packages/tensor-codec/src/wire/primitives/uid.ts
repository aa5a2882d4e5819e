// SPDX-License-Identifier: Apache-2.0

/**
 * A spec's wire key, an unsigned 64-bit integer: a number up to 2^53 - 1, a
 * bigint beyond, so that equal keys are equal values (`===`, Map keys).
 */
export type Uid = number | bigint;
