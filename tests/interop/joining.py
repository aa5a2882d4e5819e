# SPDX-License-Identifier: Apache-2.0
"""Connects tests to a server with the official client."""

import grpc
import numpy as np
from dm_env_rpc.v1 import connection, dm_env_rpc_pb2, tensor_utils


def connect(address):
    """Opens a connection of the official client."""
    return connection.create_secure_channel_and_connect(
        address, grpc.local_channel_credentials()
    )


def packed(settings):
    """Packs settings for a request."""
    return {name: tensor_utils.pack_tensor(value) for name, value in settings.items()}


def create_world(connected, settings):
    request = dm_env_rpc_pb2.CreateWorldRequest(settings=packed(settings))
    return connected.send(request).world_name


def join_world(connected, world, settings):
    request = dm_env_rpc_pb2.JoinWorldRequest(world_name=world, settings=packed(settings))
    return connected.send(request).specs


def leave_world(connected):
    connected.send(dm_env_rpc_pb2.LeaveWorldRequest())


def destroy_world(connected, world):
    connected.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=world))


EXACTING_CREATE = {
    "size": np.int32(3),
    "map.name": "meadow",
    "map.rows": np.array([4, 5], np.int32),
}
EXACTING_JOIN = {"team": "red"}
