// SPDX-License-Identifier: Apache-2.0

/** The wire types of protobuf, the low three bits of a tag. */
export const varintType = 0;
export const fixed64Type = 1;
export const lengthDelimitedType = 2;
export const startGroupType = 3;
export const endGroupType = 4;
export const fixed32Type = 5;

/** The field of every `Tensor.*Array`: `array = 1`. */
export const arrayField = 1;
/** The tag of that field, unless it holds a single unpacked number. */
export const arrayTag: number = (arrayField << 3) | lengthDelimitedType;
/** The field of `Tensor.shape`. */
export const shapeField = 15;
