// SPDX-License-Identifier: Apache-2.0
import {
  type DmEnvRpcError,
  isDmEnvRpcError,
  type PackedTensor,
  type Tensor,
  t,
  tensor,
} from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { RefusalCounts } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { EndBytes, SavedEnds } from "./saved-ends.ts";
import { SeatSpecs } from "./seat-specs.ts";

const size = 1000;

const specs = (): SeatSpecs =>
  new SeatSpecs({}, { picture: t.uint8([size]), map: t.uint8([size]), level: t.int32() }, 2 ** 24);

const pixels = (value: number, last = value): Tensor =>
  tensor("uint8", [size], new Uint8Array(size).fill(value).fill(last, size - 1));

const bytesOf = (...values: number[]): Tensor =>
  tensor("uint8", [values.length], Uint8Array.from(values));

/** Observes the same values whichever observations are requested. */
function observed(values: Readonly<Record<string, PackedTensor>>) {
  return (requested: readonly SpecEntry[]): UidTensor[] =>
    requested.map(({ uid, name }) => ({ uid, tensor: values[name] as PackedTensor }));
}

const scene = (picture: PackedTensor, map = pixels(7)) =>
  observed({ picture, map, level: tensor("int32", [], Int32Array.of(3)) });

function setUp(limit = 2 ** 20) {
  const refusals = new RefusalCounts();
  const bytes = new EndBytes(limit, refusals);
  return { bytes, refusals, one: new SavedEnds(bytes), other: new SavedEnds(bytes) };
}

function requestOf(of: SeatSpecs, ...names: string[]): readonly SpecEntry[] {
  const uids = of.observations.entries.filter(({ name }) => names.includes(name));
  return of.readRequested({ actions: [], requestedObservations: uids.map(({ uid }) => uid) });
}

/** An agent with these specs whose last step requested the observations of these names. */
const agent = (of: SeatSpecs, ...names: string[]) => ({
  specs: of,
  requested: requestOf(of, ...names),
});

/** Returns the last element of each observation, or the message of an error. */
const dataOf = (read: readonly UidTensor[] | DmEnvRpcError): unknown =>
  isDmEnvRpcError(read) ? read.message : read.map(({ tensor: { data } }) => data.at(-1));

describe("saved ends", () => {
  it("are copies, because observations are borrowed", () => {
    const { one } = setUp();
    const of = specs();
    const picture = pixels(1);
    const end = one.save(agent(of), scene(picture));
    (picture.data as Uint8Array).fill(9);
    expect(dataOf(one.read(end, requestOf(of, "level", "picture")))).toEqual([1, 3]);
  });

  it("share the observations that are the same, bit for bit", () => {
    const { one, bytes } = setUp();
    const of = specs();
    const ends = [pixels(1), pixels(1), pixels(1, 2)].map((picture) =>
      one.save(agent(of), scene(picture)),
    );
    const perEnd = 2 * size + 4;
    expect(bytes.bytes).toBe(perEnd + size);
    const pictures = ends.map((end) => dataOf(one.read(end, requestOf(of, "picture"))));
    expect(pictures).toEqual([[1], [1], [2]]);
    for (const end of ends) {
      one.drop(end);
    }
    expect(bytes.bytes).toBe(0);
  });

  it("do not share values that only compare equal, or other shapes", () => {
    const { one, bytes } = setUp();
    const of = new SeatSpecs({}, { speed: t.float64(), rows: t.uint8([-1]) }, 2 ** 24);
    const save = (speed: number, rows: number[]) =>
      one.save(
        agent(of),
        observed({
          speed: tensor("float64", [], Float64Array.of(speed)),
          rows: tensor("uint8", [rows.length], Uint8Array.from(rows)),
        }),
      );
    save(0, [1, 2]);
    expect(bytes.bytes).toBe(8 + 2);
    save(-0, [1, 2, 0]);
    expect(bytes.bytes).toBe(8 + 2 + 8 + 3);
  });

  it.each<[string, Tensor, Tensor]>([
    ["dtype", tensor("int32", [], Int32Array.of(0)), tensor("float32", [], Float32Array.of(0))],
    ["rank", tensor("int8", [2], Int8Array.of(1, 2)), tensor("int8", [2, 1], Int8Array.of(1, 2))],
    ["last of five bytes", bytesOf(1, 1, 1, 1, 1), bytesOf(1, 1, 1, 1, 2)],
  ])("do not share observations that differ in their %s", (_what, first, second) => {
    const { one } = setUp();
    const of = new SeatSpecs({}, { any: t.int32() }, 2 ** 24);
    const ends = [first, second].map((any) => one.save(agent(of), observed({ any })));
    const read = ends.map((end) => one.read(end, of.observations.entries));
    const [uid] = of.observations.entries.map((entry) => entry.uid);
    expect(read).toEqual([[{ uid, tensor: first }], [{ uid, tensor: second }]]);
  });

  it.each([
    ["aligned", 4, 0],
    ["at an odd offset", 4, 1],
    ["of an odd length", 5, 0],
  ])("share bytes %s", (_where, length, offset) => {
    const { one, bytes } = setUp();
    const of = new SeatSpecs({}, { rows: t.uint8([-1]) }, 2 ** 24);
    for (let i = 0; i < 2; i++) {
      const rows = new Uint8Array(8).fill(3).subarray(offset, offset + length);
      one.save(agent(of), observed({ rows: tensor("uint8", [length], rows) }));
    }
    expect(bytes.bytes).toBe(length);
  });

  it("share the last copy until its last end is dropped", () => {
    const { one, bytes } = setUp();
    const of = new SeatSpecs({}, { picture: t.uint8([size]) }, 2 ** 24);
    const save = (value: number) => one.save(agent(of), observed({ picture: pixels(value) }));
    const first = save(1);
    const second = save(2);
    one.drop(first);
    const third = save(2);
    expect(bytes.bytes).toBe(size);
    one.drop(second);
    one.drop(third);
    expect(bytes.bytes).toBe(0);
    save(2);
    expect(bytes.bytes).toBe(size);
  });

  it("count the bytes of strings, which are shared if they are the same", () => {
    const { one, bytes } = setUp();
    const of = new SeatSpecs({}, { board: t.string() }, 2 ** 24);
    for (const board of ["a.b", "a.b", "..."]) {
      one.save(agent(of), observed({ board: tensor("string", [], [board]) }));
    }
    expect(bytes.bytes).toBe(2 * 6);
  });

  it("of the world with the most bytes are dropped above the limit, the oldest first", () => {
    const { one, other, bytes, refusals } = setUp(5 * size);
    const of = specs();
    const save = (world: SavedEnds, value: number) =>
      world.save(agent(of, "picture", "map"), scene(pixels(value), pixels(value + 100)));
    const small = save(other, 1);
    const [first, second] = [save(one, 1), save(one, 2)];
    expect(bytes.bytes).toBeLessThanOrEqual(5 * size);
    const requested = requestOf(of, "picture");
    expect(dataOf(other.read(small, requested))).toEqual([1]);
    expect(dataOf(one.read(second, requested))).toEqual([2]);
    expect(dataOf(one.read(first, requested))).toMatch(
      /"picture" .*was dropped: .* 5000 bytes .*\(limit: maxUndeliveredEndBytes\)/,
    );
    expect(one.read(first, [])).toEqual([]);
    expect(refusals.byLimit.get("maxUndeliveredEndBytes")).toBe(1);
    for (const [world, end] of [
      [one, first],
      [one, second],
      [other, small],
    ] as const) {
      world.drop(end);
    }
    expect(bytes.bytes).toBe(0);
  });

  it("that were dropped are not dropped again above the limit", () => {
    const { one, bytes, refusals } = setUp(2 * size);
    const of = new SeatSpecs({}, { picture: t.uint8([size]) }, 2 ** 24);
    const entries = requestOf(of, "picture");
    const save = (value: number) =>
      one.save(agent(of, "picture"), observed({ picture: pixels(value) }));
    one.drop(save(1));
    const ends = [save(2), save(3), save(4)];
    const dropped = expect.stringContaining("was dropped");
    expect(ends.map((end) => dataOf(one.read(end, entries)))).toEqual([dropped, [3], [4]]);
    expect(bytes.bytes).toBe(2 * size);
    expect(refusals.byLimit.get("maxUndeliveredEndBytes")).toBe(1);
  });

  it("of a world with fewer bytes are kept above the limit, whichever was saved last", () => {
    const { one, other } = setUp(3 * size);
    const of = new SeatSpecs({}, { picture: t.uint8([size]) }, 2 ** 24);
    const entries = requestOf(of, "picture");
    const save = (world: SavedEnds, value: number) =>
      world.save(agent(of, "picture"), observed({ picture: pixels(value) }));
    const large = [save(one, 1), save(one, 2), save(one, 3)];
    const small = save(other, 4);
    expect(dataOf(other.read(small, entries))).toEqual([4]);
    const dropped = expect.stringContaining("was dropped");
    expect(large.map((end) => dataOf(one.read(end, entries)))).toEqual([dropped, [2], [3]]);
  });

  it("keep observations of at most 64 numbers above a quarter of the limit, and no others", () => {
    const { one } = setUp(4 * size);
    const of = new SeatSpecs(
      {},
      {
        picture: t.uint8([size]),
        few: t.uint8([8, 8]),
        more: t.uint8([65]),
        text: t.string(),
        rows: t.uint8([-1]),
      },
      2 ** 24,
    );
    const values = {
      picture: pixels(1),
      few: tensor("uint8", [8, 8], new Uint8Array(64)),
      more: tensor("uint8", [65], new Uint8Array(65)),
      text: tensor("string", [], ["a"]),
      rows: tensor("uint8", [1], Uint8Array.of(1)),
    };
    one.save(agent(of), observed(values));
    const end = one.save(agent(of), observed(values));
    expect([...end.values()].map(({ observation }) => observation.tensor)).toEqual([values.few]);
  });

  it("keep only what the agent requested last and small observations above a quarter of the limit", () => {
    const { one, bytes, refusals } = setUp(4 * 2 * size);
    const of = specs();
    const full = one.save(agent(of, "picture"), scene(pixels(1), pixels(2)));
    expect(bytes.isTight(one)).toBe(true);
    const seen: string[] = [];
    const viewer = agent(of, "picture");
    requestOf(of, "map"); // Another agent with the same specs.
    const end = one.save(viewer, (requested) => {
      seen.push(...requested.map(({ name }) => name));
      return scene(pixels(3))(requested);
    });
    expect(seen.sort()).toEqual(["level", "picture"]);
    expect(dataOf(one.read(full, requestOf(of, "map")))).toEqual([2]);
    expect(dataOf(one.read(end, requestOf(of, "picture")))).toEqual([3]);
    expect(refusals.byLimit.size).toBe(0);
    expect(dataOf(one.read(end, requestOf(of, "map")))).toMatch(
      /"map" .*was not kept: .* more than a quarter of 8000 bytes; .*\(limit: maxUndeliveredEndBytes\)/,
    );
    expect(refusals.byLimit.get("maxUndeliveredEndBytes")).toBe(1);
  });

  it("of a world with fewer bytes than another keep all observations above a quarter of the limit", () => {
    const { one, other, bytes } = setUp(8 * size);
    const of = specs();
    const save = (world: SavedEnds, value: number) =>
      world.save(agent(of), scene(pixels(value), pixels(value + 100)));
    const { observations } = of;
    save(one, 1);
    const few = new SeatSpecs({}, { text: t.string() }, 2 ** 24);
    other.save(agent(few), observed({ text: tensor("string", [], ["few"]) }));
    expect([bytes.isTight(one), bytes.isTight(other)]).toEqual([true, false]);
    const whole = save(other, 2);
    expect(other.read(whole, observations.entries)).toHaveLength(observations.entries.length);
    expect(bytes.isTight(other)).toBe(true);
    expect(dataOf(other.read(save(other, 3), requestOf(of, "map")))).toMatch(/was not kept/);
  });

  it("of worlds with equal bytes keep only what is requested above a quarter of the limit", () => {
    const { one, other, bytes } = setUp(6 * size);
    const of = new SeatSpecs({}, { picture: t.uint8([size]) }, 2 ** 24);
    for (const world of [one, other]) {
      world.save(agent(of), observed({ picture: pixels(1) }));
    }
    expect([bytes.isTight(one), bytes.isTight(other)]).toEqual([true, true]);
  });
});
