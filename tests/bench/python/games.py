# SPDX-License-Identifier: Apache-2.0
"""The games of src/loads, as a server in Python plays them and a client checks them."""

import numpy as np


class BoardGame:
  """A paddle that moves, a ball that falls, and a reward that counts the ticks."""

  actions = {'move': (np.int8, ())}
  observations = {
      'reward': (np.float32, ()),
      'discount': (np.float32, ()),
      'board': (np.uint8, (10, 5)),
  }

  def __init__(self):
    self._tick = 0
    self._paddle = 2

  def step(self, move):
    self._tick += 1
    self._paddle = min(max(self._paddle + int(move) - 1, 0), 4)

  def observe(self, name):
    if name == 'reward':
      return np.float32(self._tick % 1024)
    if name == 'discount':
      return np.float32(1)
    board = np.zeros((10, 5), np.uint8)
    board.flat[self._tick % 45] = 1
    board.flat[45 + self._paddle] = 1
    return board

  @staticmethod
  def check(tick, observations):
    board = observations['board']
    if (observations['reward'] != tick % 1024 or observations['discount'] != 1 or
        board.shape != (10, 5) or board.flat[tick % 45] != 1):
      raise ValueError(f'wrong answer at tick {tick}: {observations}')


class ScreenGame:
  """Two pictures, of which each tick changes a few pixels."""

  actions = {'move': (np.int8, ())}
  observations = {
      'screen': (np.uint8, (210, 160, 3)),
      'stack': (np.float32, (84, 84, 4)),
  }

  def __init__(self):
    at = np.arange(210 * 160 * 3)
    self._screen = np.where(
        (at // 4800) % 7 == 0, (at * 37) % 251, 40 + at // 14400
    ).astype(np.uint8).reshape(210, 160, 3)
    self._stack = np.resize(self._screen.ravel() / np.float32(255), (84, 84, 4)).astype(np.float32)
    self._tick = 0
    self._draw()

  def _draw(self):
    tick = self._tick
    self._screen.flat[0] = tick & 0xff
    self._screen.flat[-1] = (tick >> 8) & 0xff
    self._stack.flat[0] = tick & 0xffff
    self._stack.flat[-1] = tick & 0xff

  def step(self, move):
    del move
    self._tick += 1
    self._draw()

  def observe(self, name):
    return self._screen if name == 'screen' else self._stack

  @staticmethod
  def check(tick, observations):
    screen, stack = observations['screen'], observations['stack']
    if (screen.shape != (210, 160, 3) or screen.flat[0] != tick & 0xff or
        screen.flat[-1] != (tick >> 8) & 0xff or stack.shape != (84, 84, 4) or
        stack.flat[0] != tick & 0xffff or stack.flat[-1] != tick & 0xff):
      raise ValueError(f'wrong answer at tick {tick}')


GAMES = {'board': BoardGame, 'screen': ScreenGame}
