// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type DType,
  type PackedTensor,
  type PackValue,
  pack,
  packFor,
  type Scalar,
  type Tensor,
  type TensorSpec,
  toScalar,
  unpack,
} from "@dm-env-rpc/tensor-codec";
import type { Connection } from "../environment/environment.ts";
import { isRefusal } from "../stream/faults.ts";
import type { WaitOptions } from "../stream/wait.ts";
import {
  extensionProtocol,
  legacyProtocol,
  type PropertyInfo,
  type PropertyProtocol,
} from "./property-protocols.ts";

/** A property with the properties below it. */
export interface PropertyNode extends PropertyInfo {
  readonly children: readonly PropertyNode[];
}

/** Options of `set`. */
export interface WritePropertyOptions extends WaitOptions {
  /**
   * Dtype to pack the value as. Default: the dtype of the property if it was listed before, otherwise
   * the dtype of the value.
   */
  readonly dtype?: DType | undefined;
}

/**
 * The properties of a server and, once a world is joined, of that world (reference.md,
 * "Read/Write/List Property"). Uses the properties extension, or the requests of protocol 1.0 if the
 * server supports only those.
 *
 * A call rejects with DmEnvRpcError NOT_FOUND for an unknown key, PERMISSION_DENIED for forbidden
 * access, and INVALID_ARGUMENT for a bad value of a write.
 */
export interface Properties {
  /** Reads a property: a scalar, or a tensor. */
  get(key: string, options?: WaitOptions): Promise<Scalar | Tensor>;
  /** Writes a property; the world decides when the value takes effect. */
  set(key: string, value: PackValue, options?: WritePropertyOptions): Promise<void>;
  /** Lists the properties under a key. Default: the root, which is the empty key. */
  list(key?: string, options?: WaitOptions): Promise<readonly PropertyInfo[]>;
  /**
   * Lists everything below a key, recursively. A property that occurs again below itself is not
   * followed.
   */
  tree(key?: string, options?: WaitOptions): Promise<readonly PropertyNode[]>;
}

/** Options of `properties`. */
export interface PropertiesOptions {
  /**
   * `extension`, `legacy` for servers before 1.1, or `auto` (default): the extension, unless the
   * server turns out to support only the legacy requests.
   */
  readonly protocol?: "auto" | "extension" | "legacy" | undefined;
}

const maxTreeProperties = 100_000;

/**
 * Returns the properties of a connection's server and world.
 *
 * @example
 * const { get, set, list } = properties(connection);
 * await set("gravity", 3.71);
 * for (const { key } of await list()) {
 *   console.log(key, await get(key));
 * }
 */
export function properties(
  connection: Pick<Connection, "send">,
  options: PropertiesOptions = {},
): Properties {
  const { protocol = "auto" } = options;
  const reach = protocolOf(connection, protocol);
  const specs = new Map<string, TensorSpec>();

  const list: Properties["list"] = async (key = "", wait) => {
    const found = await reach((through) => through.list(connection, key, wait));
    for (const { key: name, spec } of found) {
      if (spec !== undefined) {
        specs.set(name, spec);
      }
    }
    return found;
  };
  const nodes = async (
    key: string,
    above: ReadonlySet<string>,
    room: { properties: number },
    wait: WaitOptions | undefined,
  ): Promise<PropertyNode[]> => {
    const found = await list(key, wait);
    // The limit keeps the tree finite, whatever the server sends.
    room.properties -= found.length;
    if (room.properties < 0) {
      throw tooManyProperties();
    }
    return await Promise.all(
      found.map(async (info) => ({
        ...info,
        children:
          info.listable && !above.has(info.key)
            ? await nodes(info.key, new Set([...above, info.key]), room, wait)
            : [],
      })),
    );
  };
  return {
    get: async (key, wait) => {
      const tensor = unpack(await reach((through) => through.read(connection, key, wait)), {
        name: key,
      });
      return tensor.shape.length === 0 ? toScalar(tensor) : tensor;
    },
    set: async (key, value, { dtype, ...wait } = {}) => {
      const tensor = packProperty(key, value, dtype, specs.get(key));
      await reach((through) => through.write(connection, key, tensor, wait));
    },
    list,
    tree: (key = "", wait) => nodes(key, new Set([key]), { properties: maxTreeProperties }, wait),
  };
}

function tooManyProperties(): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `expected at most ${maxTreeProperties} properties in a tree, received more; call list() level by level`,
    { origin: "client" },
  );
}

function packProperty(
  name: string,
  value: PackValue,
  dtype: DType | undefined,
  spec: TensorSpec | undefined,
): PackedTensor {
  if (dtype !== undefined) {
    return pack(value, { name, dtype });
  }
  return spec === undefined ? pack(value, { name }) : packFor(value, spec, name);
}

type Reach = <T>(call: (through: PropertyProtocol) => Promise<T>) => Promise<T>;

/** Returns a function that calls through the protocol that the server supports, which the first call determines. */
function protocolOf(
  connection: Pick<Connection, "send">,
  protocol: "auto" | "extension" | "legacy",
): Reach {
  let chosen =
    protocol === "auto" ? undefined : protocol === "legacy" ? legacyProtocol : extensionProtocol;
  return async (call) => {
    if (chosen !== undefined) {
      return await call(chosen);
    }
    try {
      const result = await call(extensionProtocol);
      chosen = extensionProtocol;
      return result;
    } catch (error) {
      if (!isRefusal(error) || knowsProperties(error)) {
        throw error;
      }
      try {
        await legacyProtocol.list(connection, "", undefined);
      } catch {
        throw error;
      }
      chosen = legacyProtocol;
      return await call(legacyProtocol);
    }
  };
}

/** True if an error concerns a property rather than the extension. */
function knowsProperties(error: DmEnvRpcError): boolean {
  return error.code === "NOT_FOUND" || error.code === "PERMISSION_DENIED";
}
