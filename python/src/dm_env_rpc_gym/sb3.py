# SPDX-License-Identifier: Apache-2.0
"""Many agents as a `VecEnv` of Stable-Baselines3."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv
from typing_extensions import Unpack

from ._flat import FlatActions, FlatObservations, info_list
from ._options import Options
from .errors import UsageError
from .vector_env import RemoteVectorEnv

Indices = int | Iterable[int] | None


class RemoteVecEnv(VecEnv):
    """Many agents, each in a world of its own, for the algorithms of Stable-Baselines3.

    Nested dicts of observations become one with slashes in its names, and scalars get the shape
    [1]; dicts of actions become one `MultiDiscrete` or one `Box`.

    Args:
        address: As in `RemoteVectorEnv`.
        num_envs: Number of slots.
        **options: Keyword arguments of `Options`.

    Raises:
        SpecError: Stable-Baselines3 has no space for an observation or for the actions.

    Example:
        >>> model = PPO("MultiInputPolicy", RemoteVecEnv("localhost:8980", 16))
    """

    def __init__(
        self, address: str | Sequence[str], num_envs: int = 1, **options: Unpack[Options]
    ) -> None:
        self._envs = RemoteVectorEnv(
            address, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **options
        )
        self._actions: Any = None
        try:
            self._flat_observations = FlatObservations(self._envs.single_observation_space)
            self._flat_actions = FlatActions(self._envs.single_action_space)
            super().__init__(num_envs, self._flat_observations.space, self._flat_actions.space)
        except BaseException:
            self._envs.close()
            raise
        self.metadata = self._envs.metadata

    def reset(self) -> Any:
        """Begins a sequence in every slot, with the seeds and options given before."""
        if any(options != self._options[0] for options in self._options):
            raise UsageError(
                f"set_options received options that differ between slots: {self._options}",
                "UNIMPLEMENTED",
                "give one dict for all slots",
            )
        options = self._options[0] or None
        observations, infos = self._envs.reset(seed=self._seeds, options=options)
        self.reset_infos = info_list(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return self._flat_observations.flatten(observations)

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Takes the actions of the next `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[Any]]:
        """Steps every slot; a slot whose sequence ends begins the next one at once."""
        actions = self._flat_actions.unflatten(np.asarray(self._actions))
        observations, rewards, terminated, truncated, infos = self._envs.step(actions)
        final = infos.pop("final_obs", None)
        lasts = info_list(infos.pop("final_info", {}), self.num_envs)
        ended = terminated | truncated
        firsts = info_list(infos, self.num_envs)
        listed = []
        for index in range(self.num_envs):
            if not ended[index]:
                listed.append({**firsts[index], "TimeLimit.truncated": False})
                continue
            self.reset_infos[index] = firsts[index]
            listed.append(
                {
                    **lasts[index],
                    "TimeLimit.truncated": bool(truncated[index] and not terminated[index]),
                    "terminal_observation": self._flat_observations.flatten(final[index]),
                }
            )
        return (
            self._flat_observations.flatten(observations),
            rewards.astype(np.float32),
            ended,
            listed,
        )

    def close(self) -> None:
        """Closes every slot; never raises."""
        self._envs.close()

    def get_images(self) -> Sequence[Any]:
        """Returns the frame of every slot."""
        return self._envs.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Returns an attribute of the vector environment, once for each index."""
        return [getattr(self._envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets an attribute of the vector environment, which all slots share."""
        setattr(self._envs, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Raises `UsageError`: a slot is a stream and has no methods."""
        raise UsageError(
            f"slots have no methods: {method_name} was called", "UNIMPLEMENTED", "use RemoteEnv"
        )

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """False for every slot."""
        return [False for _ in self._get_indices(indices)]
