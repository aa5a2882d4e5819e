// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";

const maxPort = 65_535;

/** Ports for programs, both inclusive. */
export interface PortBounds {
  readonly first: number;
  readonly last: number;
}

/** Assigns the ports of a range in turn, so that an agent that dials an old address seldom reaches another program. */
export class PortRange {
  readonly #bounds: PortBounds | undefined;
  readonly #taken = new Set<number>();
  #next: number;

  /**
   * @param bounds The range; undefined leaves the choice to the system.
   * @throws RangeError for a malformed range.
   */
  constructor(bounds: PortBounds | undefined) {
    this.#bounds = bounds;
    this.#next = bounds?.first ?? 0;
    if (bounds === undefined) {
      return;
    }
    const { first, last } = bounds;
    const isRange = Number.isInteger(first) && Number.isInteger(last) && first >= 1;
    if (!isRange || last < first || last > maxPort) {
      throw new RangeError(
        `ports of programs: expected whole numbers from 1 to ${maxPort}, the first no higher than the last, received ${first} to ${last}`,
      );
    }
  }

  /**
   * Calls `open` with a free port, and with the next one while another process has the port.
   *
   * @throws DmEnvRpcError RESOURCE_EXHAUSTED if no port is free.
   */
  async take<T>(open: (port: number) => Promise<T>): Promise<T> {
    if (this.#bounds === undefined) {
      return await open(0);
    }
    const { first, last } = this.#bounds;
    for (let tried = 0; tried <= last - first; tried += 1) {
      const port = this.#next;
      this.#next = port === last ? first : port + 1;
      if (this.#taken.has(port)) {
        continue;
      }
      this.#taken.add(port);
      try {
        return await open(port);
      } catch (error) {
        this.#taken.delete(port);
        if (!isDmEnvRpcError(error) || error.code !== "UNAVAILABLE") {
          throw error;
        }
      }
    }
    throw new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `no free port for a program: expected one from ${first} to ${last}, but all are in use; try again later, or widen programPorts`,
    );
  }

  /** Returns a port to the range. */
  release(port: number): void {
    this.#taken.delete(port);
  }
}
