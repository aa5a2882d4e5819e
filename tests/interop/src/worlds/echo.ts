// SPDX-License-Identifier: Apache-2.0
import { defineWorld } from "@dm-env-rpc/server";
import { type DType, dtypes, type Shape, type TensorSpec, zeros } from "@dm-env-rpc/tensor-codec";

type Group = Readonly<Record<DType, TensorSpec>>;

/** Makes a spec of each dtype, by its name. */
function ofEachDType(shape: Shape): Group {
  const names = Object.keys(dtypes) as DType[];
  return Object.fromEntries(names.map((dtype) => [dtype, { dtype, shape }])) as Group;
}

const echoed = {
  scalar: ofEachDType([]),
  matrix: ofEachDType([2, 3]),
  rows: ofEachDType([-1, 2]),
  empty: ofEachDType([0, 3]),
};

type GroupName = keyof typeof echoed;

/** A world with every dtype and kind of shape, whose observations are the agent's last actions. */
export const echo = defineWorld({
  name: "echo",
  actions: echoed,
  observations: echoed,
  perAgent: true,
  create() {
    let latest: Partial<Record<GroupName, Partial<Record<DType, unknown>>>> = {};
    const observers = (group: GroupName) => {
      const makers = Object.entries(echoed[group]).map(([dtype, spec]) => {
        const make = (): unknown => latest[group]?.[dtype as DType] ?? zeros(spec);
        return [dtype, make];
      });
      return Object.fromEntries(makers) as Record<DType, () => never>;
    };
    return {
      start() {
        latest = {};
      },
      step(actions) {
        for (const given of actions.values()) {
          latest = given;
        }
      },
      observe: {
        scalar: observers("scalar"),
        matrix: observers("matrix"),
        rows: observers("rows"),
        empty: observers("empty"),
      },
    };
  },
});
