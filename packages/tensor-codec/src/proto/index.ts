// SPDX-License-Identifier: Apache-2.0
/** Bridges between tensors, specs and errors and their generated messages. */
export { packStatus, statusCodeOf, statusCodes, unpackStatus } from "../errors/status.ts";
export { packSettings } from "./settings.ts";
export { type SpecEntry, type SpecTable, specTable, tableOf } from "./spec-table.ts";
export { type NamedSpec, packSpec, packSpecs, unpackSpec, unpackSpecs } from "./specs.ts";
export { dtypeOf, packTensor, unpackTensor } from "./tensors.ts";
