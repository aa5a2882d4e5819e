// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { parseAllDocuments } from "yaml";
import { bin } from "../paths.ts";

/** The parts of a container that the tests read. */
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: {
      readonly secretKeyRef?: { readonly name: string };
      readonly fieldRef?: { readonly fieldPath: string };
    };
  }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly preStop?: { readonly sleep?: { readonly seconds: number } } };
  readonly resources?: {
    readonly requests?: object;
    readonly limits?: { readonly memory?: string };
  };
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

export interface Probe {
  readonly grpc?: { readonly port: number; readonly service?: string };
}

export interface PodTemplate {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly serviceAccountName?: string;
    readonly automountServiceAccountToken?: boolean;
    readonly containers: readonly Container[];
    readonly terminationGracePeriodSeconds?: number;
    readonly securityContext?: Readonly<Record<string, unknown>>;
    readonly volumes?: readonly {
      readonly name: string;
      readonly secret?: { readonly secretName: string };
      readonly configMap?: { readonly name: string };
    }[];
  };
}

type Labels = Readonly<Record<string, string>>;

/** The parts of a manifest that the tests read; fields that its kind lacks are undefined. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly object[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
  readonly spec?: {
    readonly replicas?: number;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly scaleTargetRef?: { readonly kind: string; readonly name: string };
    readonly fleetName?: string;
    readonly maxReplicas?: number;
    readonly policy?: { readonly buffer?: { readonly maxReplicas?: number } };
    readonly template?: PodTemplate & { readonly spec: { readonly template?: PodTemplate } };
    readonly ports?: readonly {
      readonly name: string;
      readonly port?: number;
      readonly targetPort?: string;
      readonly containerPort?: number;
    }[];
  };
}

/** Renders a kustomization. */
export async function render(folder: string): Promise<readonly Manifest[]> {
  const text = await run(join(bin, "kustomize"), ["build", folder]);
  return parseAllDocuments(text).map((document) => document.toJS());
}

/** Returns the pods of manifests, with the manifest that creates each. */
export function podsOf(
  manifests: readonly Manifest[],
): readonly { readonly owner: Manifest; readonly pod: PodTemplate }[] {
  return manifests.flatMap((owner) => {
    const template = owner.spec?.template;
    if (template === undefined) {
      return [];
    }
    return [{ owner, pod: template.spec.template ?? template }];
  });
}

/** Returns the value of `--name=value`. */
export function option(args: readonly string[], name: string): string | undefined {
  return args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3);
}

/** Returns the argument after `--name`. */
export function argument(args: readonly string[], name: string): string | undefined {
  const at = args.indexOf(`--${name}`);
  return at === -1 ? undefined : args[at + 1];
}

/** Returns the bytes of a size such as `1Gi`, as Kubernetes writes it, or `512mb`, as Redis does. */
export function bytesOf(size = ""): number {
  const [, number, unit = ""] = /^(\d+)(mi|mb|gi|gb)$/i.exec(size) ?? [];
  return Number(number) * 1024 ** (unit.toLowerCase().startsWith("m") ? 2 : 3);
}
