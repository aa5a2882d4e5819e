# SPDX-License-Identifier: Apache-2.0
"""Writes python.golden.json: messages as the official Python package encodes them.

  python3 -m venv venv && venv/bin/pip install dm-env-rpc==1.1.6 "numpy<2"
  venv/bin/python make.py > python.golden.json

Each entry has the bytes in hex and, for tensors, what they mean: dtype, shape and
the data as it is in memory (little-endian, in hex), or as a list for strings and protos.
"""

import json
import sys

from dm_env import specs as dm_env_specs
from dm_env_rpc.v1 import dm_env_rpc_pb2 as pb
from dm_env_rpc.v1 import dm_env_utils
from dm_env_rpc.v1 import tensor_spec_utils
from dm_env_rpc.v1 import tensor_utils
from google.protobuf import struct_pb2
import numpy as np

golden = {}


def put(name, kind, message, **more):
  golden[name] = {
      'kind': kind,
      'hex': message.SerializeToString(deterministic=True).hex(),
      **more,
  }


def meaning(value):
  """Returns the dtype, shape and data that a packed NumPy value decodes to."""
  value = np.asarray(value)
  shape = list(value.shape)
  if value.dtype.kind == 'U':
    return {'dtype': 'string', 'shape': shape, 'data': value.ravel().tolist()}
  if value.dtype == object:
    data = [{'typeUrl': any_.type_url, 'value': any_.value.hex()}
            for any_ in map(tensor_utils._pack_any_proto, value.flat)]
    return {'dtype': 'proto', 'shape': shape, 'data': data}
  little = value.astype(value.dtype.newbyteorder('<'))
  return {'dtype': value.dtype.name, 'shape': shape, 'data': little.tobytes().hex()}


def tensor(name, value, **options):
  put(f'tensor: {name}', 'tensor', tensor_utils.pack_tensor(value, **options),
      meaning=meaning(value))


RANGES = {
    np.int8: [0, 1, -1, 127, -128],
    np.uint8: [0, 1, 127, 128, 255],
    np.int32: [0, 1, -1, 127, 128, 16384, -300, 2**31 - 1, -2**31],
    np.uint32: [0, 1, 127, 128, 2**28, 2**31, 2**32 - 1],
    np.int64: [0, 1, -1, 128, 2**32, -2**40, 2**53 + 1, 2**63 - 1, -2**63],
    np.uint64: [0, 1, 128, 2**32, 2**53 + 1, 2**63, 2**64 - 1],
    np.float32: [0.0, -0.0, 1.5, -1e-45, 3.4028235e38, np.inf, -np.inf, np.nan],
    np.float64: [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan],
    np.bool_: [True, False, False, True],
    np.str_: ['', 'a', 'ß€😀', 'x' * 200],
}

for np_type, values in RANGES.items():
  dtype = np.dtype(np_type).name if np_type is not np.str_ else 'string'
  array = np.array(values, dtype=np_type)
  tensor(f'{dtype} array', array)
  tensor(f'{dtype} scalar', array[1])
  tensor(f'{dtype} matrix', array[:4].reshape(2, 2))
  tensor(f'{dtype} empty', np.zeros((0, 3), dtype=np_type))

tensor('float32 image', np.arange(84 * 4, dtype=np.float32).reshape(4, 7, 12) / 7)
tensor('int32 long', np.arange(-500, 500, dtype=np.int32) * 997)

struct = struct_pb2.Struct()
struct.update({'health': 1.5, 'name': 'rover', 'tags': ['a', True, None]})
tensor('proto scalar', struct)
tensor('proto array', np.array([struct, struct_pb2.Value(number_value=2)], dtype=object))

put('tensor: compressed', 'tensor',
    tensor_utils.pack_tensor(np.full((20, 30), 7, dtype=np.int32), try_compress=True),
    meaning=meaning(np.full((20, 30), 7, dtype=np.int32)))
variable = tensor_utils.pack_tensor(np.arange(6, dtype=np.int32).reshape(2, 3))
variable.shape[:] = [2, -1]
put('tensor: variable', 'tensor', variable,
    meaning=meaning(np.arange(6, dtype=np.int32).reshape(2, 3)))
broadcast = tensor_utils.pack_tensor(np.float32(1.25))
broadcast.shape[:] = [3, -1]
put('tensor: variable and broadcast', 'tensor', broadcast,
    meaning=meaning(np.full((3, 1), 1.25, dtype=np.float32)))

UIDS = [0, 1, 127, 128, 2**32, 2**53 - 1, 2**53, 2**64 - 1]

put('request: step', 'request', pb.EnvironmentRequest(step=pb.StepRequest(
    actions={uid: tensor_utils.pack_tensor(np.int32(uid % 7)) for uid in UIDS},
    requested_observations=UIDS)))
put('request: step of nothing', 'request', pb.EnvironmentRequest(step=pb.StepRequest()))
put('request: no payload', 'request', pb.EnvironmentRequest())
put('request: create', 'request', pb.EnvironmentRequest(create_world=pb.CreateWorldRequest(
    settings={
        'seed': tensor_utils.pack_tensor(np.uint64(2**63)),
        'level': tensor_utils.pack_tensor('maze'),
    })))
put('request: join', 'request', pb.EnvironmentRequest(join_world=pb.JoinWorldRequest(
    world_name='maze-1', settings={'agent.name': tensor_utils.pack_tensor('a')})))
put('request: reset', 'request', pb.EnvironmentRequest(reset=pb.ResetRequest()))
put('request: reset world', 'request', pb.EnvironmentRequest(
    reset_world=pb.ResetWorldRequest(world_name='maze-1')))
put('request: leave', 'request', pb.EnvironmentRequest(leave_world=pb.LeaveWorldRequest()))
put('request: destroy', 'request', pb.EnvironmentRequest(
    destroy_world=pb.DestroyWorldRequest(world_name='maze-1')))

put('response: step', 'response', pb.EnvironmentResponse(step=pb.StepResponse(
    state=pb.EnvironmentStateType.RUNNING,
    observations={
        1: tensor_utils.pack_tensor(np.float32(0.5)),
        2: tensor_utils.pack_tensor(np.float64(1.0)),
        3: tensor_utils.pack_tensor(np.arange(50, dtype=np.uint8).reshape(10, 5)),
        2**60: tensor_utils.pack_tensor(np.array(['a', 'b'])),
    })))
put('response: step of nothing', 'response', pb.EnvironmentResponse(step=pb.StepResponse(
    state=pb.EnvironmentStateType.INTERRUPTED)))

error = pb.EnvironmentResponse()
error.error.code = 3
error.error.message = 'no such action: 7'
put('response: error', 'response', error)


def spec(name, dtype, shape=(), minimum=None, maximum=None):
  message = pb.TensorSpec(name=name, dtype=dtype, shape=shape)
  if minimum is not None or maximum is not None:
    tensor_spec_utils.set_bounds(message, minimum, maximum)
  return message


SPECS = {
    'discrete': spec('move', pb.INT8, (), 0, 4),
    'unbounded': spec('score', pb.INT64),
    'bounded floats': spec('arm.joints', pb.FLOAT, (2, 3), -1.5, 0.1),
    'bounds of each': spec('each', pb.DOUBLE, (3,), [0.0, -1.0, -2.0], [1.0, 2.0, 3.0]),
    'one bound of a float': spec('speed', pb.FLOAT, (), 0.0, None),
    'variable': spec('words', pb.STRING, (-1,)),
    'bool': spec('door', pb.BOOL, (2,)),
    'proto': spec('any', pb.PROTO),
    'wide': spec('wide', pb.UINT64, (2,), 1, 2**64 - 1),
}

for name, message in SPECS.items():
  put(f'spec: {name}', 'spec', message)

put('response: join', 'response', pb.EnvironmentResponse(join_world=pb.JoinWorldResponse(
    specs=pb.ActionObservationSpecs(
        actions={2**62: SPECS['bounded floats']},
        observations={1: SPECS['wide']}))))
# Not a response: tests encode responses again, and the order of map entries is undefined.
put('specs: many', 'specs', pb.ActionObservationSpecs(
    actions={1: SPECS['discrete'], 2**62: SPECS['bounded floats']},
    observations={uid: message for uid, message in enumerate(SPECS.values())}))

# What dm_env makes of specs, and specs of dm_env (behaviour 51).
for name, array in {
    'array': dm_env_specs.Array((2,), np.float32, 'plain'),
    'bounded': dm_env_specs.BoundedArray((2,), np.int32, -3, 3, 'bounded'),
    'discrete': dm_env_specs.DiscreteArray(5, np.int32, 'discrete'),
    'string': dm_env_specs.StringArray((2,), name='strings'),
}.items():
  put(f'dm_env: {name}', 'spec', dm_env_utils.dm_env_spec_to_tensor_spec(array))

json.dump(golden, sys.stdout, indent=1, ensure_ascii=True)
print()
