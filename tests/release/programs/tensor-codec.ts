// SPDX-License-Identifier: Apache-2.0
import { deepEqual, throws } from "node:assert/strict";
import { packFor, t, unpack, validate } from "@dm-env-rpc/tensor-codec";
import { decodeTensor, encodeTensor } from "@dm-env-rpc/tensor-codec/wire";

const spec = t.float32([2, 3], { min: -1, max: 1 });
const rows = [
  [0, 1, 0],
  [1, 0, -0.5],
];
const tensor = unpack(decodeTensor(encodeTensor(packFor(rows, spec, "joints"))));
validate(tensor, spec, "joints");
deepEqual([...tensor.shape], [2, 3]);
deepEqual([...tensor.data], rows.flat());
throws(() => packFor([[0, 1, 0]], spec, "joints"), { name: "TensorError" });
