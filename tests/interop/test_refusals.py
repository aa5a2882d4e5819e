# SPDX-License-Identifier: Apache-2.0
"""Moves that a world refuses, by agents of the official client."""

from concurrent import futures

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
