// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type Code,
  ConnectError,
  createRouterTransport,
  type Transport,
} from "@connectrpc/connect";
import {
  type RegisterServerRequest,
  RegisterServerResponseSchema,
  RegistryService,
  type RenewServerRequest,
  RenewServerResponseSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
import {
  type Registration,
  type RegistrationEvent,
  type RegistrationOptions,
  register,
  type ServedWorld,
} from "../src/registration/register.ts";
import { startMs } from "./start-ms.ts";

/** The lease of servers, in milliseconds. */
export const leaseMs = 15_000;
/** The address of the server that registers. */
export const address = "server.test:1";

/** A matchmaker whose answers a test sets, and which records its calls. */
export class Registry {
  readonly time: ManualTime = manualTime(startMs);
  readonly asked: string[] = [];
  readonly registrations: RegisterServerRequest[] = [];
  readonly renewals: RenewServerRequest[] = [];
  readonly events: RegistrationEvent[] = [];
  readonly worlds: ServedWorld[] = [];
  /** Codes or errors with which the next calls of each kind fail. */
  readonly failures: {
    readonly register: (Code | ConnectError)[];
    readonly renew: (Code | ConnectError)[];
  } = { register: [], renew: [] };
  /** Milliseconds by which its clock is ahead of the server's; undefined if its answers have no time. */
  aheadMs: number | undefined = 0;
  lease: number | undefined = leaseMs;
  /** The server's random number. At 1, each delay is as long as it may be. */
  jitter = 1;
  jwks = "";
  readonly #epoch = 7n;

  /** Options of a server that registers here. */
  get options(): Omit<RegistrationOptions, "worlds"> {
    return {
      matchmakers: ["a.test:1", "b.test:1"],
      transports: ["a", "b"].map((name) => this.#transport(name)),
      address,
      maxWorlds: 3,
      maxAgents: 12,
      worldTypes: ["gridworld"],
      time: this.time,
      random: () => this.jitter,
      serverId: "server",
      onEvent: (event) => this.events.push(event),
    };
  }

  open(): Registration {
    return register({ ...this.options, worlds: () => this.worlds });
  }

  /** Advances the clock and runs everything that is due. */
  async pass(ms: number): Promise<void> {
    await this.settle();
    for (let left = ms; left > 0; ) {
      const step = Math.min(
        left,
        Math.max(1, (this.time.due ?? Number.POSITIVE_INFINITY) - this.time.now()),
      );
      this.time.advance(step);
      left -= step;
      await this.settle();
    }
  }

  async settle(): Promise<void> {
    for (let turn = 0; turn < 10; turn++) {
      await setImmediate();
    }
  }

  #transport(name: string): Transport {
    const fail = (failures: (Code | ConnectError)[]): void => {
      const failure = failures.shift();
      if (failure !== undefined) {
        throw failure instanceof ConnectError ? failure : new ConnectError("no", failure);
      }
    };
    const terms = () => ({
      jwks: this.jwks,
      ...(this.lease === undefined ? {} : { lease: durationFromMs(this.lease) }),
      ...(this.aheadMs === undefined
        ? {}
        : { serverTime: timestampFromMs(this.time.now() + this.aheadMs) }),
    });
    return createRouterTransport(({ service }) => {
      service(RegistryService, {
        registerServer: (request) => {
          this.asked.push(`${name}: register`);
          this.registrations.push(request);
          fail(this.failures.register);
          return create(RegisterServerResponseSchema, { ...terms(), epoch: this.#epoch });
        },
        renewServer: (request) => {
          this.asked.push(`${name}: renew`);
          this.renewals.push(request);
          fail(this.failures.renew);
          return create(RenewServerResponseSchema, terms());
        },
        drainServer: () => {
          this.asked.push(`${name}: drain`);
          return {};
        },
        deregisterServer: () => {
          this.asked.push(`${name}: deregister`);
          return {};
        },
      });
    });
  }
}
