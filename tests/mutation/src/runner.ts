// SPDX-License-Identifier: Apache-2.0
import {
  commonTokens,
  declareFactoryPlugin,
  type Injector,
  type PluginContext,
  PluginKind,
  tokens,
} from "@stryker-mutator/api/plugin";
import { MutantRunStatus, type TestRunner } from "@stryker-mutator/api/test-runner";
import { strykerPlugins as vitestPlugins } from "@stryker-mutator/vitest-runner";
import { blockedMessage } from "./kept-thread.ts";

/** Stryker's runner of vitest, with the thread of `keptThreadPlugin`: a mutant that blocks the thread has timed out. */
export const strykerPlugins = vitestPlugins.map(({ factory }) => {
  const createRunner = (injector: Injector<PluginContext>): TestRunner => {
    const runner = injector.injectFunction(factory);
    const mutantRun = runner.mutantRun.bind(runner);
    runner.mutantRun = async (options) => {
      const result = await mutantRun(options);
      return result.status === MutantRunStatus.Error && result.errorMessage.includes(blockedMessage)
        ? { status: MutantRunStatus.Timeout, reason: blockedMessage }
        : result;
    };
    return runner;
  };
  createRunner.inject = tokens(commonTokens.injector);
  return declareFactoryPlugin(PluginKind.TestRunner, "vitest-kept-thread", createRunner);
});
