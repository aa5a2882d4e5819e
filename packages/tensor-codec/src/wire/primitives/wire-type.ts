// SPDX-License-Identifier: Apache-2.0

/** The wire types of protobuf, the low three bits of a tag. */
export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
export const START_GROUP = 3;
export const END_GROUP = 4;
export const FIXED32 = 5;

/** The field of every `Tensor.*Array`: `array = 1`. */
export const ARRAY_FIELD = 1;
/** The tag of that field, unless it holds a single unpacked number. */
export const ARRAY_TAG: number = (ARRAY_FIELD << 3) | LENGTH_DELIMITED;
/** The field of `Tensor.shape`. */
export const SHAPE_FIELD = 15;
