// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { headerBytes, OtherBytes, refusedStreamBytes } from "./other-bytes.ts";

/** A connection that opens streams with headers of 100 bytes. */
class Opening {
  readonly bytes = new OtherBytes();
  #bytesRead = 0;
  #id = -1;
  #open = 0;

  open(count: number): number[] {
    return Array.from({ length: count }, () => {
      this.#id += 2;
      this.#bytesRead += 100;
      this.#open += 1;
      this.bytes.openStream(this.#id);
      return this.#id;
    });
  }

  refuse(ids: readonly number[]): void {
    for (const id of ids) {
      this.bytes.refuseStream(id, true);
      this.#open -= 1;
    }
  }

  close(ids: readonly number[]): void {
    this.#open -= ids.length;
  }

  check(elapsedMs = 0): number {
    return this.bytes.check(this.#bytesRead, this.#open, elapsedMs);
  }
}

test("bytes count if they are neither DATA nor the headers of streams, and a mebibyte per second is forgiven", () => {
  const bytes = new OtherBytes();
  bytes.openStream(1);
  bytes.receiveData(1_000);
  bytes.receiveData(2);
  // 1,002 bytes of DATA with the headers of two frames, of which the second counts in part, and the headers of the stream.
  const known = 1_002 + 9 + 2 + headerBytes;
  expect(bytes.check(known + 3_000_000, 1, 0)).toBe(3_000_000);
  expect(bytes.spent).toBe(3_000_000);
  expect(bytes.check(known + 3_000_000, 1, 1_000)).toBe(0);
  expect(bytes.spent).toBe(3_000_000 - 2 ** 20);
  bytes.check(known + 3_000_000, 1, 10_000);
  expect(bytes.spent).toBe(0);
});

test.each([
  ["at once", false],
  ["only after a check", true],
])("each refused stream counts the same, if the streams are refused %s", (_, isChecked) => {
  const connection = new Opening();
  for (let round = 1; round <= 40; round++) {
    const ids = connection.open(100);
    if (isChecked) {
      connection.check();
    }
    connection.refuse(ids);
    if (!isChecked) {
      connection.check();
    }
    expect(connection.bytes.spent).toBe(round * 100 * (refusedStreamBytes + 100));
  }
  expect(connection.bytes).toMatchObject({ opened: 4_000, refused: 4_000 });
});

test("the headers of streams that are refused after many checks count once", () => {
  const connection = new Opening();
  const ids = connection.open(250);
  for (let check = 0; check < 20; check++) {
    connection.check();
  }
  connection.refuse(ids);
  expect(connection.bytes.spent).toBe(250 * (refusedStreamBytes + 100));
});

test("a stream that is refused after it has closed counts like any other refused stream", () => {
  const connection = new Opening();
  const ids = connection.open(250);
  connection.close(ids);
  connection.check();
  for (const id of ids) {
    connection.bytes.refuseStream(id, false);
  }
  connection.check();
  expect(connection.bytes.spent).toBe(250 * refusedStreamBytes);
});

test("streams that were served and have closed do not make refused streams cheaper", () => {
  const connection = new Opening();
  for (let round = 0; round < 100; round++) {
    const served = connection.open(100);
    connection.check();
    connection.close(served);
  }
  for (let round = 0; round < 10; round++) {
    const ids = connection.open(100);
    connection.check();
    connection.refuse(ids);
  }
  expect(connection.bytes.spent).toBeGreaterThan(10 * 100 * refusedStreamBytes);
});

test("the bytes of a check do not include refused streams", () => {
  const connection = new Opening();
  const [first = 0, second = 0] = connection.open(2);
  connection.refuse([first]);
  expect(connection.check()).toBe(200 - headerBytes);
  connection.refuse([second]);
  expect(connection.check()).toBe(0);
});
