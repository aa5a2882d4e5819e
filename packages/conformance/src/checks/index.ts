// SPDX-License-Identifier: Apache-2.0
import type { Check, CheckInfo } from "../check.ts";
import { batchChecks } from "./batches.ts";
import { errorChecks } from "./errors.ts";
import { propertyChecks } from "./properties.ts";
import { resetChecks } from "./resets.ts";
import { sequenceChecks } from "./sequences.ts";
import { settingChecks } from "./settings.ts";
import { specChecks } from "./specs.ts";
import { stepChecks } from "./steps.ts";
import { streamChecks } from "./stream.ts";
import { tensorChecks } from "./tensors.ts";
import { worldChecks } from "./worlds.ts";

export { unseen } from "./unseen.ts";

/** Every check, with the code that runs it. */
export const checks: readonly Check[] = [
  ...streamChecks,
  ...errorChecks,
  ...tensorChecks,
  ...specChecks,
  ...settingChecks,
  ...worldChecks,
  ...stepChecks,
  ...resetChecks,
  ...propertyChecks,
  ...sequenceChecks,
  ...batchChecks,
].toSorted((a, b) => a.behaviour - b.behaviour);

/** Every check, in the order of the behaviours. */
export const allChecks: readonly CheckInfo[] = checks.map(({ run, ...info }) => info);
