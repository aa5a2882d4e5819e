// SPDX-License-Identifier: Apache-2.0

/**
 * What is used here of the kinds of Agones 1.x, field by field after its API reference (agones.dev,
 * "Agones Kubernetes API"), because no package carries its custom resource definitions. A field
 * that is not listed is refused; pods are checked by Kubernetes' own schema.
 */
function record(properties: object, required: readonly string[] = []): object {
  return { type: "object", additionalProperties: false, properties, required };
}

const count = { type: "integer", minimum: 0 };
const text = { type: "string", minLength: 1 };
const metadata = record(
  { name: text, namespace: text, labels: { type: "object", additionalProperties: text } },
  ["name"],
);

const gameServerSpec = record(
  {
    container: text,
    ports: {
      type: "array",
      minItems: 1,
      items: record(
        {
          name: text,
          portPolicy: { enum: ["Dynamic", "Static", "Passthrough", "None"] },
          container: text,
          containerPort: { type: "integer", minimum: 1, maximum: 65_535 },
          protocol: { enum: ["UDP", "TCP", "TCPUDP"] },
        },
        ["name", "containerPort"],
      ),
    },
    health: record({
      disabled: { type: "boolean" },
      initialDelaySeconds: count,
      periodSeconds: count,
      failureThreshold: count,
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
        template: record(
          {
            metadata: record({ labels: { type: "object", additionalProperties: text } }),
            spec: gameServerSpec,
          },
          ["spec"],
        ),
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
        fleetName: text,
        policy: record(
          {
            type: { const: "Buffer" },
            buffer: record({ bufferSize: count, minReplicas: count, maxReplicas: count }, [
              "bufferSize",
              "maxReplicas",
            ]),
          },
          ["type", "buffer"],
        ),
        sync: record(
          {
            type: { const: "FixedInterval" },
            fixedInterval: record({ seconds: count }, ["seconds"]),
          },
          ["type", "fixedInterval"],
        ),
      },
      ["fleetName", "policy"],
    ),
  },
  ["apiVersion", "kind", "metadata", "spec"],
);
