// SPDX-License-Identifier: Apache-2.0

/**
 * Agones 1.57's schema of the fields that are used here: its custom resource definitions
 * (googleforgames/agones, install/helm/agones/templates/crds) and the further rules of its
 * admission webhook (pkg/apis). It is defined here because no package has it. Unlisted fields are refused;
 * pods are checked by Kubernetes' own schema.
 */
function record(properties: object, required: readonly string[] = []): object {
  return { type: "object", additionalProperties: false, properties, required };
}

const count = { type: "integer", minimum: 0 };
const seconds = { type: "integer", minimum: 0, maximum: 2 ** 31 };
const text = { type: "string", minLength: 1 };
const name = { type: "string", maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" };
const labels = { type: "object", additionalProperties: text };
const metadata = record({ name, namespace: name, labels }, ["name"]);
/** Condition on a sibling property, in Ajv's form. */
const bufferSize = { $data: "1/bufferSize" };

const gameServerSpec = record(
  {
    container: name,
    ports: {
      type: "array",
      items: record(
        {
          name: text,
          // Other policies have other fields.
          portPolicy: { const: "Dynamic" },
          container: text,
          containerPort: { type: "integer", minimum: 1, maximum: 65_535 },
          protocol: { enum: ["UDP", "TCP", "TCPUDP"] },
        },
        ["containerPort"],
      ),
    },
    health: record({
      disabled: { type: "boolean" },
      initialDelaySeconds: seconds,
      periodSeconds: seconds,
      failureThreshold: { ...seconds, minimum: 1 },
    }),
    template: { type: "object" },
  },
  ["template"],
);

export const fleetSchema = record(
  {
    apiVersion: { const: "agones.dev/v1" },
    kind: { const: "Fleet" },
    metadata,
    spec: record(
      {
        replicas: count,
        scheduling: { enum: ["Packed", "Distributed"] },
        template: record({ metadata: record({ labels }), spec: gameServerSpec }, ["spec"]),
      },
      ["template"],
    ),
  },
  ["apiVersion", "kind", "metadata", "spec"],
);

export const fleetAutoscalerSchema = record(
  {
    apiVersion: { const: "autoscaling.agones.dev/v1" },
    kind: { const: "FleetAutoscaler" },
    metadata,
    spec: record(
      {
        fleetName: name,
        policy: record(
          {
            type: { const: "Buffer" },
            buffer: record(
              {
                bufferSize: { type: "integer", minimum: 1 },
                minReplicas: { anyOf: [{ const: 0 }, { type: "integer", minimum: bufferSize }] },
                maxReplicas: { type: "integer", minimum: bufferSize },
              },
              ["bufferSize", "maxReplicas"],
            ),
          },
          ["type", "buffer"],
        ),
        sync: record(
          {
            type: { const: "FixedInterval" },
            fixedInterval: record({ seconds: { type: "integer", minimum: 1 } }, ["seconds"]),
          },
          ["type"],
        ),
      },
      ["fleetName", "policy"],
    ),
  },
  ["apiVersion", "kind", "metadata", "spec"],
);
