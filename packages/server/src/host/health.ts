// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";

const { SERVING, NOT_SERVING, SERVICE_UNKNOWN } = HealthCheckResponse_ServingStatus;
type Status = HealthCheckResponse_ServingStatus;

/** Health of a server by service name (grpc.health.v1). */
export interface HealthBoard {
  /** The service for Connect's router. */
  readonly service: ServiceImpl<typeof Health>;
  /** Sets whether a service is serving. Initially all services are. */
  setServing(service: string, isServing: boolean): void;
  /** Reports all services as not serving from now on. */
  stopServing(): void;
  /** Ends every Watch. */
  close(): void;
}

/**
 * Creates a health board: the health of the whole server (the empty name) and of each named
 * service. `serve` includes one.
 */
export function createHealthBoard(names: readonly string[]): HealthBoard {
  const services: ReadonlySet<string> = new Set(["", ...names]);
  const watchers = new Set<() => void>();
  const paused = new Set<string>();
  let serving = true;
  let closed = false;

  const statusOf = (service: string): Status | undefined => {
    if (!services.has(service)) {
      return undefined;
    }
    return serving && !paused.has(service) ? SERVING : NOT_SERVING;
  };
  const wakeAll = (): void => {
    for (const wake of watchers) {
      wake();
    }
  };

  return {
    service: {
      check({ service }) {
        const status = statusOf(service);
        if (status !== undefined) {
          return { status };
        }
        throw new ConnectError(
          `unknown service "${service.slice(0, 200)}": expected one of ${namesOf(services)}`,
          Code.NotFound,
        );
      },
      list: () => ({
        statuses: Object.fromEntries(
          [...services].map((service) => [service, { status: statusOf(service) ?? NOT_SERVING }]),
        ),
      }),
      async *watch({ service }, { signal }) {
        let told: Status | undefined;
        while (!closed && !signal.aborted) {
          const status = statusOf(service) ?? SERVICE_UNKNOWN;
          if (status !== told) {
            told = status;
            yield { status };
          } else {
            await change(watchers, signal);
          }
        }
      },
    },
    setServing(service, isServing) {
      if (isServing) {
        paused.delete(service);
      } else {
        paused.add(service);
      }
      wakeAll();
    },
    stopServing() {
      serving = false;
      wakeAll();
    },
    close() {
      closed = true;
      wakeAll();
    },
  };
}

/** Waits until a watcher is woken, or its call ends. */
async function change(watchers: Set<() => void>, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const wake = (): void => {
      watchers.delete(wake);
      signal.removeEventListener("abort", wake);
      resolve();
    };
    watchers.add(wake);
    signal.addEventListener("abort", wake, { once: true });
  });
}

function namesOf(services: ReadonlySet<string>): string {
  return [...services]
    .map((name) => (name === "" ? '"" (the whole server)' : `"${name}"`))
    .join(", ");
}
