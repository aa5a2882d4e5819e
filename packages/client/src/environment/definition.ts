// SPDX-License-Identifier: Apache-2.0
import type {
  Packable,
  PackableOf,
  Scalar,
  Specs,
  Tensor,
  TensorSpec,
  ValueOf,
  ValuesOf,
} from "@dm-env-rpc/tensor-codec";

/**
 * Specs, or a function that derives them from settings. If it is a function, only the
 * types of its specs are known before a join.
 */
export type SpecsSource<T extends Specs> = T | ((settings: never) => T);

/**
 * Specs that an agent expects of an environment: a world's definition, or a plain record of specs.
 * It types the environment; on join it is compared with the server's specs.
 */
export interface EnvironmentDefinition<A extends Specs = Specs, O extends Specs = Specs> {
  readonly actions: SpecsSource<A>;
  readonly observations: SpecsSource<O>;
  /** Specs of a world's settings, for `createWorld` and `resetWorld`. */
  readonly settings?: Specs | undefined;
  /** Specs of an agent's settings, for `join`. */
  readonly joinSettings?: Specs | undefined;
  /** Specs of the settings of an agent's `reset`. */
  readonly resetSettings?: Specs | undefined;
}

/** Actions by name, for specs that are not known at compile time. */
export interface DynamicAction {
  readonly [name: string]: Packable | DynamicAction | undefined;
}

/** Observations by name, for specs that are not known at compile time. */
export interface DynamicObservation {
  readonly [name: string]: Scalar | Tensor | DynamicObservation;
}

/** Actions that match specs `A`. Every action is optional, including actions that only some worlds have. */
export type ActionOf<A extends Specs> = string extends keyof A
  ? DynamicAction
  : {
      readonly [K in keyof A]?:
        | (Required<A>[K] extends TensorSpec
            ? PackableOf<Required<A>[K]>
            : Required<A>[K] extends Specs
              ? ActionOf<Required<A>[K]>
              : never)
        | undefined;
    };

/**
 * Names of specs, with `.` between levels; the name of a record includes everything in it. For a
 * union of specs, the names of all alternatives.
 */
export type NameOf<T extends Specs> = T extends Specs
  ? string extends keyof T
    ? string
    : {
        [K in keyof T & string]-?: T[K] extends TensorSpec
          ? K
          : T[K] extends Specs
            ? K | `${K}.${NameOf<T[K]>}`
            : never;
      }[keyof T & string]
  : never;

type Head<N extends string> = N extends `${infer H}.${string}` ? H : N;
type Tail<N extends string, K extends string> = N extends `${K}.${infer T}` ? T : never;

type Picked<O extends Specs, N extends string> = {
  readonly [K in keyof O as K extends Head<N> ? K : never]: O[K] extends TensorSpec
    ? ValueOf<O[K]>
    : O[K] extends Specs
      ? K extends N
        ? ValuesOf<O[K]>
        : Picked<O[K], Tail<N, K & string>>
      : never;
};

/**
 * Observations of some specs: those with the requested names, or, without names, all except `reward`
 * and `discount`, which are separate fields of a time step. For a union of specs, a union of
 * observations.
 */
export type ObservationOf<O extends Specs, N extends string = never> = O extends Specs
  ? string extends keyof O
    ? DynamicObservation
    : [N] extends [never]
      ? Readonly<Omit<ValuesOf<O>, "reward" | "discount">>
      : string extends N
        ? DynamicObservation
        : Picked<O, N>
  : never;
