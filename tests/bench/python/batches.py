# SPDX-License-Identifier: Apache-2.0
"""CartPole in many slots: with the official client as a batch or with a stream each, or as a vector in this process."""

import threading
import time

import numpy as np
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor, dm_env_rpc_pb2, spec_manager, tensor_utils

_SIGNALS = ['reward', 'terminated', 'truncated']


class _Slots:
  """Steps all slots until the time is over; each counts."""

  def __init__(self, count):
    self._count = count
    self._pushes = [(np.arange(count) + tick) % 2 for tick in (0, 1)]
    self._tick = 0

  def play(self, _, until, latencies):
    before = self._tick
    now = time.perf_counter()
    while now < until:
      self._tick += 1
      rewards = self._step(self._pushes[self._tick % 2])
      if len(rewards) != self._count:
        raise ValueError(f'expected {self._count} rewards, received {len(rewards)}')
      then, now = now, time.perf_counter()
      latencies.append(now - then)
    return (self._tick - before) * self._count


class Batch(_Slots):
  """One stream that joined a world as a batch."""

  def __init__(self, port, count):
    super().__init__(count)
    self._pushes = [push.astype(np.int32) for push in self._pushes]
    self._connection = dm_env_rpc_connection.create_secure_channel_and_connect(f'127.0.0.1:{port}')
    world = dm_env_adaptor.create_world(self._connection, {})
    settings = {'batch': tensor_utils.pack_tensor(np.int32(count))}
    request = dm_env_rpc_pb2.JoinWorldRequest(world_name=world, settings=settings)
    specs = self._connection.send(request).specs
    self._actions = spec_manager.SpecManager(specs.actions)
    self._observations = spec_manager.SpecManager(specs.observations)
    names = ['state', *_SIGNALS]
    self._uids = [self._observations.name_to_uid(name) for name in names]
    self._step(self._pushes[0])

  def _step(self, push):
    response = self._connection.send(
        dm_env_rpc_pb2.StepRequest(
            requested_observations=self._uids, actions=self._actions.pack({'push': push})
        )
    )
    return self._observations.unpack(response.observations)['reward']

  def close(self):
    self._connection.close()


class Streams(_Slots):
  """A stream for each slot; all slots step together, each in its own thread, because the official client blocks."""

  def __init__(self, port, count):
    super().__init__(count)
    self._slots = [_Stream(port) for _ in range(count)]

  def play(self, _, until, latencies):
    steps = [0] * self._count

    def run(index):
      steps[index] = self._slots[index].play(until)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(self._count)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    return sum(steps)

  def close(self):
    for slot in self._slots:
      slot.close()


class _Stream:

  def __init__(self, port):
    self._connection = dm_env_rpc_connection.create_secure_channel_and_connect(f'127.0.0.1:{port}')
    world = dm_env_adaptor.create_world(self._connection, {})
    specs = self._connection.send(dm_env_rpc_pb2.JoinWorldRequest(world_name=world)).specs
    self._env = dm_env_adaptor.DmEnvAdaptor(self._connection, specs, ['reward', 'state'])

  def play(self, until):
    steps = 0
    while time.perf_counter() < until:
      self._env.step({'push': np.int32(steps % 2)})
      steps += 1
    return steps

  def close(self):
    self._connection.close()


class Gymnasium(_Slots):
  """Gymnasium's own vector, one environment after the other."""

  def __init__(self, _, count):
    import gymnasium

    super().__init__(count)
    self._envs = gymnasium.make_vec('CartPole-v1', num_envs=count, vectorization_mode='sync')
    self._envs.reset(seed=0)

  def _step(self, push):
    return self._envs.step(push)[1]

  def close(self):
    self._envs.close()


class EnvPool(_Slots):
  """EnvPool's vector, in C++."""

  def __init__(self, _, count):
    import envpool

    super().__init__(count)
    self._envs = envpool.make_gymnasium('CartPole-v1', num_envs=count)
    self._envs.reset()

  def _step(self, push):
    return self._envs.step(push)[1]

  def close(self):
    self._envs.close()


AGENTS = {'batch': Batch, 'streams': Streams, 'gymnasium': Gymnasium, 'envpool': EnvPool}
