// SPDX-License-Identifier: Apache-2.0
import { create, type DescFile, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Environment } from "@dm-env-rpc/protocol";
import { FrontendService } from "@dm-env-rpc/protocol/matchmaker";

/** Returns the descriptors of the services that an agent calls, dependencies first, as a FileDescriptorSet. */
export function descriptorSet(): Uint8Array {
  const files = new Set<DescFile>();
  const add = (file: DescFile): void => {
    for (const dependency of file.dependencies) {
      add(dependency);
    }
    files.add(file);
  };
  add(FrontendService.file);
  add(Environment.file);
  const set = create(FileDescriptorSetSchema, { file: [...files].map(({ proto }) => proto) });
  return toBinary(FileDescriptorSetSchema, set);
}
