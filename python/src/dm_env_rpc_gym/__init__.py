# SPDX-License-Identifier: Apache-2.0
"""Worlds of dm_env_rpc servers as environments of Gymnasium, PettingZoo and Stable-Baselines3.

`RemoteEnv` and `RemoteVectorEnv` implement Gymnasium's interfaces;
`gymnasium.make("dm_env_rpc_gym:DmEnvRpc-v0", address=...)` and `gymnasium.make_vec` create them.
`dm_env_rpc_gym.pettingzoo` has `RemoteParallelEnv`, `dm_env_rpc_gym.sb3` has `RemoteVecEnv`.
"""

import gymnasium

from ._options import Options
from .env import RemoteEnv
from .errors import (
    ActionError,
    ConnectionLostError,
    RemoteError,
    RequestTimeoutError,
    ServerError,
    SpecError,
    UsageError,
)
from .vector_env import RemoteVectorEnv

__all__ = [
    "ENV_ID",
    "ActionError",
    "ConnectionLostError",
    "Options",
    "RemoteEnv",
    "RemoteError",
    "RemoteVectorEnv",
    "RequestTimeoutError",
    "ServerError",
    "SpecError",
    "UsageError",
]

ENV_ID = "DmEnvRpc-v0"
"""Id for `gymnasium.make` and `gymnasium.make_vec`."""

gymnasium.register(
    ENV_ID,
    entry_point="dm_env_rpc_gym:RemoteEnv",
    vector_entry_point="dm_env_rpc_gym:RemoteVectorEnv",
    nondeterministic=True,
)
