# SPDX-License-Identifier: Apache-2.0
"""A worker of the benchmark. It receives commands, one JSON text per line, as src/worker/protocol.ts defines them."""

import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
import traceback
from importlib import metadata

from batches import AGENTS
from canvas_agent import CanvasAgent
from games import GAMES
from official_client import Agent
from official_server import serve


class Worker:

  def __init__(self):
    self._groups = {}
    self._server = None

  def serve(self, load, **_):
    self._server, port = serve(GAMES[load])
    return {'port': port}

  def connect(self, group, peer, load, port, connections, inFlight):
    if peer == 'canvas':
      self._groups[group] = [CanvasAgent(port)]
      return {}
    if peer in AGENTS:
      self._groups[group] = [AGENTS[peer](port, inFlight)]
      return {}
    self._groups[group] = [Agent(GAMES[load], port) for _ in range(connections)]
    return {}

  def play(self, group, inFlight, durationMs):
    agents = self._groups[group]
    steps = [0] * len(agents)
    latencies = [[] for _ in agents]
    errors = []
    cpu = time.process_time()
    start = time.perf_counter()
    until = start + durationMs / 1000

    def run(index):
      try:
        steps[index] = agents[index].play(inFlight, until, latencies[index])
      except BaseException as error:
        errors.append(error)

    if len(agents) == 1:
      run(0)
    else:
      threads = [threading.Thread(target=run, args=(i,)) for i in range(len(agents))]
      for thread in threads:
        thread.start()
      for thread in threads:
        thread.join()
    if errors:
      raise errors[0]
    elapsed = time.perf_counter() - start
    every = sorted(latency for each in latencies for latency in each)

    def quantile(p):
      return every[min(int(p * len(every)), len(every) - 1)] * 1e6 if every else None

    return {
        'steps': sum(steps),
        'elapsedMs': elapsed * 1000,
        'cpuMs': (time.process_time() - cpu) * 1000,
        'gcMs': None,
        'p50Micros': quantile(0.5),
        'p99Micros': quantile(0.99),
    }

  def close(self, group):
    for agent in self._groups.pop(group, []):
      agent.close()
    return {}

  def usage(self, **_):
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open('/proc/self/statm') as statm:
      pages = int(statm.read().split()[1])
    return {
        'cpuMs': (used.ru_utime + used.ru_stime) * 1000,
        'gcMs': None,
        'rssBytes': pages * os.sysconf('SC_PAGE_SIZE'),
    }

  def versions(self):
    return {
        'versions': {
            'python': platform.python_version(),
            **{name: metadata.version(name) for name in ('dm-env-rpc', 'grpcio', 'protobuf')},
            **_versions_of('gymnasium', 'envpool'),
        }
    }


  def missing(self, peers):
    """Tries each peer in its own process, because a package that is only partly installed may end the process."""
    reasons = {peer: _reason([sys.executable, __file__, 'try', peer]) for peer in peers}
    return {'missing': {peer: reason for peer, reason in reasons.items() if reason is not None}}


def _versions_of(*names):
  """The versions of the packages that are installed."""
  versions = {}
  for name in names:
    try:
      versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
      pass
  return versions


def _reason(command):
  """Returns the reason why a command fails; None if it does not fail."""
  try:
    tried = subprocess.run(command, capture_output=True, text=True, timeout=90)
  except subprocess.TimeoutExpired:
    return 'it did not start within 90 s'
  if tried.returncode == 0:
    return None
  lines = tried.stderr.strip().splitlines()
  return lines[-1].strip() if lines else f'it ended with {tried.returncode}'


def main():
  worker = Worker()
  for line in sys.stdin:
    command = json.loads(line)
    try:
      answer = getattr(worker, command.pop('do'))(**command)
    except BaseException:
      answer = {'error': traceback.format_exc()}
    print(json.dumps(answer), flush=True)
  # Threads of grpcio would keep the process alive.
  os._exit(0)


if sys.argv[1:2] == ['try']:
  AGENTS[sys.argv[2]](0, 2).play(1, time.perf_counter() + 0.01, [])
  os._exit(0)
main()
