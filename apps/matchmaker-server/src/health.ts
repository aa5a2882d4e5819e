// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type Health,
  HealthCheckResponse_ServingStatus as Status,
} from "@dm-env-rpc/protocol/health";
import { AdminService, FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";

const services: ReadonlySet<string> = new Set([
  "",
  FrontendService.typeName,
  RegistryService.typeName,
  AdminService.typeName,
]);

/** The health of a matchmaker, of each of its services, until `stopping` aborts (grpc.health.v1). */
export function healthService(stopping: AbortSignal): ServiceImpl<typeof Health> {
  const status = (): Status => (stopping.aborted ? Status.NOT_SERVING : Status.SERVING);
  return {
    check({ service }) {
      if (services.has(service)) return { status: status() };
      throw new ConnectError(
        `there is no service "${service.slice(0, 200)}" here; there are: ${[...services].slice(1).join(", ")}`,
        Code.NotFound,
      );
    },
    list: () => ({
      statuses: Object.fromEntries([...services].map((service) => [service, { status: status() }])),
    }),
    async *watch({ service }, { signal }) {
      const known = services.has(service);
      yield { status: known ? status() : Status.SERVICE_UNKNOWN };
      if (stopping.aborted) return;
      await aborted(AbortSignal.any([signal, stopping]));
      if (known && stopping.aborted) yield { status: status() };
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
