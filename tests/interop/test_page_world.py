# SPDX-License-Identifier: Apache-2.0
"""A canvas game in a page, which an agent of the official package plays through a relay."""

import pathlib

import grpc
import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_adaptor
from joining import connect
from processes import ROOT, listening


@pytest.mark.skipif(
    not pathlib.Path("/usr/bin/chromium").exists(), reason="no Chromium on this machine"
)
def test_behaviour_76_a_canvas_game_in_a_page_is_an_environment():
    program = ROOT / "tests/browser/src/relayed-page.ts"
    with listening([program]) as (page, address):
        with pytest.raises(grpc.RpcError) as lost:
            play_until_lost(address, page)
        assert lost.value.code() == grpc.StatusCode.UNAVAILABLE


def play_until_lost(address, page):
    with connect(address) as connection:
        with dm_env_adaptor.join_world(connection, "", {}) as env:
            assert env.observation_spec()["pixels"].shape == (84, 84, 3)
            env.reset()
            for _ in range(30):
                pixels = env.step({"keys": np.array([1, 0], np.uint8)}).observation["pixels"]
            # The paddle, white on the last rows, has gone to the left edge.
            paddle = np.argwhere(pixels[79:81, :, 2].min(axis=0) > 128)
            assert pixels.dtype == np.uint8
            assert paddle.size > 0 and paddle.max() < 42
            page.terminate()
            while True:
                env.step({})
