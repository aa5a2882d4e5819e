// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../src/model/model.ts";
import { type Change, type Store, StoreError } from "../src/store/store.ts";

type Wrapped = "commit" | "read" | "changes" | "acquire" | "renew";

/** A call that reads or changes the state of a store. */
export type StoreCall = {
  [K in Wrapped]: { readonly name: K; readonly args: Parameters<Store[K]> };
}[Wrapped];

/**
 * Wraps a store: `around` receives each call, and makes it with `run`. Closing the wrapper does not close the
 * store.
 */
export function wrappedStore(
  store: Store,
  around: <T>(run: () => Promise<T>, call: StoreCall) => Promise<T>,
): Store {
  return {
    ...store,
    commit: (...args) => around(() => store.commit(...args), { name: "commit", args }),
    read: (...args) => around(() => store.read(...args), { name: "read", args }),
    changes: (...args) => around(() => store.changes(...args), { name: "changes", args }),
    acquire: (...args) => around(() => store.acquire(...args), { name: "acquire", args }),
    renew: (...args) => around(() => store.renew(...args), { name: "renew", args }),
    ...withoutClose,
  };
}

const withoutClose = {
  close: async (): Promise<void> => {},
  [Symbol.asyncDispose]: async (): Promise<void> => {},
};

/** Returns a store for one of several matchmakers in a process: closing it does not close the others. */
export function sharedStore(store: Store): Store {
  return { ...store, ...withoutClose };
}

/** Wraps a store so that it never notifies: its matchmaker knows only what it reads. */
export function unnotifiedStore(store: Store): Store {
  return { ...sharedStore(store), onChange: () => () => {} };
}

/** Wraps a store so that its calls of one kind fail while `outage.isOn` is true. */
export function storeWithOutage(store: Store, name: StoreCall["name"]) {
  const outage = { isOn: false };
  const wrapped = wrappedStore(store, async (run, call) => {
    if (outage.isOn && call.name === name) {
      throw outageError();
    }
    return await run();
  });
  return { store: wrapped, outage };
}

/** Returns the error of a store that cannot be reached. */
export function outageError(): StoreError {
  return new StoreError("unavailable", "the store is away");
}

/** Returns the records of one kind that changes write. */
export function written<K extends Kind>(changes: readonly Change[], kind: K): Records[K][] {
  return changes.flatMap((change) =>
    change.kind === kind && change.value !== undefined ? [change.value as Records[K]] : [],
  );
}
