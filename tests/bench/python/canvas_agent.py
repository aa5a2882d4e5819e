# SPDX-License-Identifier: Apache-2.0
"""An agent of a canvas in a page: the official client's adaptor, a step for each tick."""

import time

import numpy as np
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor

_KEYS = [np.array(keys, np.uint8) for keys in ((1, 0), (0, 1))]


class CanvasAgent:

  def __init__(self, port):
    self._connection = dm_env_rpc_connection.create_secure_channel_and_connect(
        f'127.0.0.1:{port}'
    )
    self._env = dm_env_adaptor.join_world(self._connection, '', {})
    self._env.reset()
    self._tick = 0

  def play(self, _in_flight, until, latencies):
    """Plays until the time is over; returns the number of steps."""
    before = self._tick
    now = time.perf_counter()
    while now < until:
      pixels = self._env.step({'keys': _KEYS[self._tick % 2]}).observation['pixels']
      if pixels.shape != (84, 84, 3) or not pixels.any():
        raise ValueError(f'expected a picture, received {pixels.shape}')
      self._tick += 1
      then, now = now, time.perf_counter()
      latencies.append(now - then)
    return self._tick - before

  def close(self):
    self._env.close()
    self._connection.close()
