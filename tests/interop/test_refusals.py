# SPDX-License-Identifier: Apache-2.0
"""Moves that a world refuses and messages that a server refuses, from the official client."""

from concurrent import futures

import grpc
import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_adaptor, error
from joining import connect, create_world, destroy_world


def test_behaviour_68_an_illegal_move_is_refused_and_the_next_legal_one_played(worlds):
    address = worlds["tic-tac-toe"]
    with (
        connect(address) as host,
        connect(address) as first,
        connect(address) as second,
        futures.ThreadPoolExecutor() as threads,
    ):
        world = create_world(host, {})
        one = dm_env_adaptor.join_world(first, world, {})
        two = dm_env_adaptor.join_world(second, world, {})
        begun = threads.submit(two.reset)
        one.reset()
        moved = threads.submit(one.step, {"field": np.int32(4)})
        seen = begun.result(timeout=60).observation
        np.testing.assert_array_equal(seen["board"], [0, 0, 0, 0, -1, 0, 0, 0, 0])
        np.testing.assert_array_equal(seen["legal_actions"], np.arange(9) != 4)
        with pytest.raises(error.DmEnvRpcError, match="expected a free field, received 4") as info:
            two.step({"field": np.int32(4)})
        assert info.value.code == 3
        with pytest.raises(error.DmEnvRpcError, match="expected a free field"):
            two.step({})
        answered = threads.submit(two.step, {"field": np.int32(0)})
        timestep = moved.result(timeout=60)
        assert timestep.mid()
        np.testing.assert_array_equal(timestep.observation["board"], [-1, 0, 0, 0, 1, 0, 0, 0, 0])
        one.close()
        assert answered.result(timeout=60).last()
        two.close()
        destroy_world(host, world)


def test_behaviour_6_a_message_that_is_too_large_is_answered_before_the_stream_ends(worlds):
    address = worlds["narrow-echo"]
    with connect(address) as connected:
        env, _ = dm_env_adaptor.create_and_join_world(connected, {}, {})
        env.reset()
        assert env.step({"rows": {"uint8": np.zeros((4000, 2), np.uint8)}}).mid()
        too_large = {"rows": {"uint8": np.zeros((500_000, 2), np.uint8)}}
        with pytest.raises(error.DmEnvRpcError, match="expected at most 10000 bytes") as info:
            env.step(too_large)
        assert info.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert "received 1000" in str(info.value) and "limit: maxMessageBytes" in str(info.value)
        with pytest.raises(grpc.RpcError) as ended:
            env.step({})
        assert ended.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
