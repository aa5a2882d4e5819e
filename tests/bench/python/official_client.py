# SPDX-License-Identifier: Apache-2.0
"""The official client: DmEnvAdaptor in lock-step; its stream and specs directly if several steps are in flight."""

import time

import numpy as np
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor, dm_env_rpc_pb2, spec_manager

_MOVES = [np.int8(move) for move in (0, 1, 2)]


class Agent:
  """One connection that steps."""

  def __init__(self, game, port):
    self._game = game
    self._connection = dm_env_rpc_connection.create_secure_channel_and_connect(
        f'127.0.0.1:{port}'
    )
    world = dm_env_adaptor.create_world(self._connection, {})
    response = self._connection.send(dm_env_rpc_pb2.JoinWorldRequest(world_name=world))
    self._env = dm_env_adaptor.DmEnvAdaptor(
        self._connection, response.specs, requested_observations=list(game.observations)
    )
    self._actions = spec_manager.SpecManager(response.specs.actions)
    self._observations = spec_manager.SpecManager(response.specs.observations)
    self._env.step({})
    self._tick = 0

  def play(self, in_flight, until, latencies):
    """Plays until the time is over; returns the number of steps."""
    before = self._tick
    if in_flight == 1:
      self._lock_step(until, latencies)
    else:
      self._pipelined(in_flight, until)
    return self._tick - before

  def _lock_step(self, until, latencies):
    now = time.perf_counter()
    while now < until:
      step = self._env.step({'move': _MOVES[self._tick % 3]})
      self._tick += 1
      self._game.check(self._tick, step.observation)
      then, now = now, time.perf_counter()
      latencies.append(now - then)

  def _pipelined(self, in_flight, until):
    # What Connection.send does, in two halves.
    stream = self._connection._stream
    uids = sorted(self._observations.uids())
    asked = self._tick

    def ask():
      stream.write(
          dm_env_rpc_pb2.EnvironmentRequest(
              step=dm_env_rpc_pb2.StepRequest(
                  requested_observations=uids,
                  actions=self._actions.pack({'move': _MOVES[asked % 3]}),
              )
          )
      )

    for _ in range(in_flight):
      ask()
      asked += 1
    while self._tick < asked:
      response = stream.read()
      self._tick += 1
      self._game.check(self._tick, self._observations.unpack(response.step.observations))
      if time.perf_counter() < until:
        ask()
        asked += 1

  def close(self):
    self._env.close()
    self._connection.close()
