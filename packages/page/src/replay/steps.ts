// SPDX-License-Identifier: Apache-2.0
import { readRecording } from "@dm-env-rpc/client/recording";
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { type Tensor, unpackFor } from "@dm-env-rpc/tensor-codec";
import { type SpecTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";

/** A tensor and the name of its spec. */
export interface NamedTensor {
  readonly name: string;
  readonly tensor: Tensor;
}

/** A recorded step. */
export interface RecordedStep {
  /** Milliseconds since the first step. */
  readonly timeMs: number;
  /** `running`, `terminated` or `interrupted`. */
  readonly state: string;
  readonly actions: readonly NamedTensor[];
  readonly observations: readonly NamedTensor[];
}

const stateNames: Readonly<Record<number, string>> = {
  [EnvironmentStateType.RUNNING]: "running",
  [EnvironmentStateType.TERMINATED]: "terminated",
  [EnvironmentStateType.INTERRUPTED]: "interrupted",
};

/** The contents of a recording. */
export interface RecordedPlay {
  /** The server's address, and the names and versions of the participants. */
  readonly peer: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly steps: readonly RecordedStep[];
}

/**
 * Reads the steps of a recording.
 *
 * @throws DmEnvRpcError DATA_LOSS for a file that is damaged or not a recording.
 */
export async function readPlay(bytes: Uint8Array): Promise<RecordedPlay> {
  let [peer, versions]: [string, Readonly<Record<string, string>>] = ["", {}];
  let tables: { readonly actions: SpecTable; readonly observations: SpecTable } | undefined;
  const steps: RecordedStep[] = [];
  const asked: (readonly UidTensor[])[] = [];
  let beganUs: number | undefined;
  for await (const { case: kind, timeUs, value } of readRecording(bytes)) {
    if (kind === "header") {
      ({ peer, versions } = value);
    } else if (kind === "request") {
      if (value.case === "step") {
        asked.push(value.value.actions);
      }
    } else if (value.case === "joinWorld" || value.case === "reset") {
      tables = value.value.specs && unpackSpecs(value.value.specs);
    } else if (value.case === "step" && tables !== undefined) {
      beganUs ??= timeUs;
      steps.push({
        timeMs: (timeUs - beganUs) / 1_000,
        state: stateNames[value.value.state] ?? "unknown",
        actions: named(asked.shift() ?? [], tables.actions),
        observations: named(value.value.observations, tables.observations),
      });
    } else if (value.case === "error") {
      asked.shift();
    }
  }
  return { peer, versions, steps };
}

function named(tensors: readonly UidTensor[], table: SpecTable): readonly NamedTensor[] {
  return tensors.flatMap(({ uid, tensor }) => {
    const entry = table.entries.find((other) => other.uid === uid);
    return entry === undefined
      ? []
      : [{ name: entry.name, tensor: unpackFor(tensor, entry.spec, entry.name) }];
  });
}
