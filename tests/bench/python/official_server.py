# SPDX-License-Identifier: Apache-2.0
"""A server in Python, written as the official package suggests: with grpcio and the helpers of the package."""

from concurrent import futures

import grpc
from dm_env_rpc.v1 import (
    dm_env_rpc_pb2,
    dm_env_rpc_pb2_grpc,
    spec_manager,
    tensor_utils,
)


def _specs(fields):
  return {
      uid: dm_env_rpc_pb2.TensorSpec(
          name=name, shape=shape, dtype=tensor_utils.np_type_to_data_type(dtype)
      )
      for uid, (name, (dtype, shape)) in enumerate(fields.items(), start=1)
  }


class _Service(dm_env_rpc_pb2_grpc.EnvironmentServicer):

  def __init__(self, game):
    self._game = game
    self._specs = dm_env_rpc_pb2.ActionObservationSpecs(
        actions=_specs(game.actions), observations=_specs(game.observations)
    )

  def Process(self, request_iterator, context):
    """One stream, one game."""
    game = self._game()
    actions = spec_manager.SpecManager(self._specs.actions)
    observations = spec_manager.SpecManager(self._specs.observations)
    running = False
    for request in request_iterator:
      response = dm_env_rpc_pb2.EnvironmentResponse()
      payload = request.WhichOneof('payload')
      if payload == 'step':
        if running:
          game.step(actions.unpack(request.step.actions).get('move', 1))
        running = True
        seen = {
            name: game.observe(name)
            for name in map(observations.uid_to_name, request.step.requested_observations)
        }
        response.step.state = dm_env_rpc_pb2.EnvironmentStateType.RUNNING
        for uid, tensor in observations.pack(seen).items():
          response.step.observations[uid].CopyFrom(tensor)
      elif payload == 'create_world':
        response.create_world.world_name = 'game'
      elif payload == 'join_world':
        response.join_world.specs.CopyFrom(self._specs)
      elif payload == 'reset':
        response.reset.specs.CopyFrom(self._specs)
      elif payload == 'leave_world':
        response.leave_world.SetInParent()
      elif payload == 'destroy_world':
        response.destroy_world.SetInParent()
      else:
        response.error.message = f'no {payload} here'
      yield response


def serve(game):
  """Serves a game and returns the port."""
  # A stream occupies a thread until it ends.
  server = grpc.server(
      futures.ThreadPoolExecutor(max_workers=128),
      options=[('grpc.max_send_message_length', -1), ('grpc.max_receive_message_length', -1)],
  )
  dm_env_rpc_pb2_grpc.add_EnvironmentServicer_to_server(_Service(game), server)
  port = server.add_secure_port('127.0.0.1:0', grpc.local_server_credentials())
  server.start()
  return server, port
