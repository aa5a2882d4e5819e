// SPDX-License-Identifier: Apache-2.0
// The API reference, of everything that the packages export (npm run docs).
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Application, makeRecursiveVisitor, OptionDefaults, Type } from "typedoc";

const root = join(import.meta.dirname, "..");

/** The source of each import that users may write, such as `@dm-env-rpc/client/vector`. */
const sources = new Map(
  globSync("packages/*/package.json", { cwd: root }).flatMap((path) => {
    const { name, exports = {} } = JSON.parse(readFileSync(join(root, path), "utf8"));
    return Object.entries(exports)
      .map(([subPath, target]) => [subPath, target.default ?? target])
      .filter(([, target]) => target.endsWith(".js"))
      .map(([subPath, target]) => [
        join(name, subPath),
        join(root, dirname(path), target.replace(/^\.\/dist\/(.*)\.js$/, "src/$1.ts")),
      ]);
  }),
);

const names = new Set([...sources.keys()].map((name) => name.split("/").slice(0, 2).join("/")));

/** Types that exported types refer to but users never name: intermediate types, and records of the matchmaker's store. */
const unnamed = new Set([
  ...[
    "AsIs",
    "PackedAsIs",
    "DTypeOf",
    "DTypeOfValue",
    "ElementTypeTable",
    "ScalarOfKind",
    "Picked",
    "ServerLimitTable",
    "RelayLimitTable",
    "Socket",
    "SettingTable",
    "Answer",
    ...["IsUnion", "NameIn", "SpecIn", "Merged", "OwnSpecs"],
    ...["OnlyResultNames", "BufferedBytes"],
    ...["UntypedWorld", "UntypedWorldDefinition", "Part"],
  ],
  ...["ProfileRecord", "ServerRecord", "Report", "World", "Match", "Ticket", "Secret"],
]);

/** Refuses names in what is exported that are not exported themselves; TypeDoc's own check knows only one package. */
function exportsWhatItNames(app) {
  app.on(Application.EVENT_VALIDATE_PROJECT, ({ reflections }) => {
    const seen = new Set();
    for (const reflection of Object.values(reflections)) {
      const visitor = makeRecursiveVisitor({
        reference(type) {
          if (type.reflection || type.isIntentionallyBroken() || !names.has(type.package)) {
            return;
          }
          const name = type.qualifiedName;
          if (!seen.has(name) && !unnamed.has(name)) {
            const path = `${type.package}/${type.symbolId?.packagePath}`;
            const at = reflection.getFriendlyFullName();
            app.logger.validationWarning(`${name} of ${path} is not exported, but ${at} names it`);
          }
          seen.add(name);
        },
      });
      const { type, default: otherwise, extendedTypes = [], implementedTypes = [] } = reflection;
      for (const each of [type, otherwise, ...extendedTypes, ...implementedTypes]) {
        if (each instanceof Type) {
          each.visit(visitor);
        }
      }
    }
    for (const name of unnamed) {
      if (!seen.has(name)) {
        app.logger.validationWarning(`nothing that is exported names ${name}`);
      }
    }
  });
}

/** @type {import("typedoc").TypeDocOptions} */
export default {
  name: "dm_env_rpc for TypeScript",
  // What is internal is reached by links from what is public, and has no page of its own.
  entryPoints: [...sources].filter(([name]) => !name.includes("/internal")).map(([, path]) => path),
  // One program of all sources, so that packages link to each other.
  compilerOptions: {
    paths: Object.fromEntries([...sources].map(([name, source]) => [name, [source]])),
  },
  tsconfig: join(import.meta.dirname, "tsconfig.json"),
  out: join(import.meta.dirname, "api"),
  readme: "none",
  excludeExternals: true,
  excludePrivate: true,
  githubPages: false,
  blockTags: [...OptionDefaults.blockTags, "@generated"],
  excludeTags: [...OptionDefaults.excludeTags, "@generated"],
  // What is exported has a docstring; what is generated has that of its .proto, or none.
  packagesRequiringDocumentation: [...names].filter((name) => name !== "@dm-env-rpc/protocol"),
  requiredToBeDocumented: ["Variable", "Function", "Class", "Interface", "TypeAlias"],
  plugin: [exportsWhatItNames],
  validation: { notDocumented: true },
  treatWarningsAsErrors: true,
  treatValidationWarningsAsErrors: true,
};
