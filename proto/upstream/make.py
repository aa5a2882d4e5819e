# SPDX-License-Identifier: Apache-2.0
"""Writes the image of the released protocol that `buf breaking` compares with.

    pip install dm-env-rpc==1.1.6
    python proto/upstream/make.py

The descriptors come from the official Python package.
"""

import pathlib

from dm_env_rpc.v1 import dm_env_rpc_pb2
from dm_env_rpc.v1.extensions import properties_pb2
from google.protobuf import any_pb2, descriptor_pb2
from google.rpc import status_pb2

image = descriptor_pb2.FileDescriptorSet()
for module in (any_pb2, status_pb2, dm_env_rpc_pb2, properties_pb2):
    module.DESCRIPTOR.CopyToProto(image.file.add())



def complete(message):
    """Adds the JSON names, which the Python descriptors lack."""
    for field in message.field:
        first, *rest = field.name.split("_")
        field.json_name = first + "".join(word.capitalize() for word in rest)
    for nested in message.nested_type:
        complete(nested)


for file in image.file:
    for message in file.message_type:
        complete(message)

path = pathlib.Path(__file__).with_name("dm_env_rpc-1.1.6.binpb")
path.write_bytes(image.SerializeToString(deterministic=True))
print(f"{path}: {len(image.file)} files")
