// SPDX-License-Identifier: Apache-2.0
// Gives property tests the same cases for every mutant: what the first run found to cover a
// mutant must reach it again.
import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: 1 });
