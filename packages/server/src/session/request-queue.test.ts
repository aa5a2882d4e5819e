// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { RequestQueue } from "./request-queue.ts";

interface Named {
  readonly name: string;
  readonly size: number;
}

const queueOf = (maxQueuedRequests: number, maxQueuedBytes: number) => {
  const queue = new RequestQueue<Named>({ maxQueuedRequests, maxQueuedBytes });
  return {
    add: (name: string, size: number) => queue.add({ name, size }),
    take: () => queue.take()?.name,
    clear: () => queue.clear(),
    get size() {
      return queue.size;
    },
    get heldBytes() {
      return queue.heldBytes;
    },
    get isFull() {
      return queue.isFull;
    },
  };
};

describe("a queue of requests", () => {
  it("is full at its bound of requests, and not before", () => {
    const queue = queueOf(2, 100);
    queue.add("a", 1);
    expect(queue.isFull).toBe(false);
    queue.add("b", 1);
    expect(queue.isFull).toBe(true);
    queue.take();
    expect(queue.isFull).toBe(false);
  });

  it("is full at its bound of bytes, until all requests are taken", () => {
    const queue = queueOf(100, 10);
    queue.add("a", 9);
    expect(queue.isFull).toBe(false);
    queue.add("b", 1);
    expect(queue.isFull).toBe(true);
    queue.take();
    expect(queue.isFull).toBe(true);
    queue.take();
    expect(queue.isFull).toBe(false);
    queue.add("c", 9);
    expect(queue.isFull).toBe(false);
  });

  it("holds the bytes of its requests and their overhead until all of them are taken", () => {
    const queue = queueOf(100, 100);
    queue.add("a", 10);
    queue.add("b", 20);
    expect(queue.heldBytes).toBe(30 + 2 * 640);
    queue.take();
    expect(queue.heldBytes).toBe(30 + 2 * 640);
    queue.take();
    expect(queue.heldBytes).toBe(0);
  });

  it("lets requests in one by one where its bound of bytes is 0", () => {
    const queue = queueOf(100, 0);
    expect(queue.isFull).toBe(false);
    queue.add("a", 1);
    expect(queue.isFull).toBe(true);
  });

  it("returns requests in the order in which they were added, and drops them when cleared", () => {
    const queue = queueOf(100, 100);
    for (const request of ["a", "b", "c"]) {
      queue.add(request, 1);
    }
    expect([queue.take(), queue.take(), queue.size]).toEqual(["a", "b", 1]);
    queue.clear();
    expect([queue.size, queue.take()]).toEqual([0, undefined]);
    queue.add("d", 1);
    expect([queue.take(), queue.take()]).toEqual(["d", undefined]);
  });
});
