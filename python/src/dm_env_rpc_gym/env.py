# SPDX-License-Identifier: Apache-2.0
"""One agent in a world, as an environment of Gymnasium."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from ._agent_specs import AgentSpecs, Frame
from ._options import RENDER_MODES, Caller, Options
from ._session import Session
from .errors import UsageError


class RemoteEnv(gymnasium.Env[Any, Any]):
    """One agent in a world of a dm_env_rpc server.

    After a `ConnectionLostError` or a `RequestTimeoutError`, `reset` connects again and creates a
    new world, unless `world` names an existing one.

    Args:
        address: `host:port` of the server, or `unix:/path`; `https://host:port` for TLS.
        **options: Keyword arguments of `Options`.

    Raises:
        RequestTimeoutError: No connection, or no answer.
        ServerError: The server refused the world or its settings.
        SpecError: The world's specs do not fit the options.

    Example:
        >>> env = RemoteEnv("localhost:8980", create_settings={"max_steps": 50})
        >>> observation, info = env.reset(seed=1)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 as Gymnasium has it
        "render_modes": list(RENDER_MODES),
        "render_fps": 10,
    }

    def __init__(self, address: str, **options: Unpack[Options]) -> None:
        self._caller = Caller(options)
        self._session = Session(self._caller.host(address), options)
        self._caller.call(self._session.open(), f"joining a world on {address}")
        self._specs: AgentSpecs = self._session.specs[0]
        self.observation_space = self._specs.observation_space
        self.action_space = self._specs.action_space
        self.render_mode = options.get("render_mode")
        self.metadata = metadata_of(self._specs)
        self._frame: Frame | None = None
        self._running = False
        self._closed = False

    @property
    def world_name(self) -> str:
        """Name of the world, which other agents can join."""
        return self._session.world_name

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence.

        Args:
            seed: Sent as the setting `seed` of the first request that accepts it: the agent's
                reset, a reset of the world, or the creation of a new world. If none does, a
                warning reports it, and only `np_random` is seeded. A world given by name is
                neither reset nor recreated.
            options: `options["settings"]` are settings of the reset.
        """
        super().reset(seed=seed)
        self._check_open()
        self._running = False
        settings = reset_settings(options)
        [step] = self._caller.call(self._session.reset(seed, settings), "reset")
        self._session.warn_of_seeds()
        self._running = True
        self._frame = step.frame
        return step.observation, step.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps with an action of the action space.

        Raises:
            ActionError: The action does not fit; nothing was sent, and the sequence continues.
        """
        self._check_open()
        if not self._running:
            raise UsageError(
                "step is outside of a sequence", "FAILED_PRECONDITION", "call reset() first"
            )
        request = self._specs.request(action)
        [step] = self._caller.call(self._session.step({0: request}), "step")
        self._running = not step.ended
        self._frame = step.frame
        return step.observation, step.reward, step.terminated, step.truncated, step.info

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Returns the frame of the last step, if `render_mode` is `"rgb_array"`."""
        return None if self._frame is None else self._frame.copy()

    def close(self) -> None:
        """Leaves the world, destroys a world that it created, and disconnects; never raises."""
        if getattr(self, "_closed", True):
            return
        self._closed = True
        self._caller.close(self._session.close())

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the environment is closed", "FAILED_PRECONDITION", "create a new one")


def metadata_of(specs: AgentSpecs) -> dict[str, Any]:
    """The metadata of an environment: it renders if the world has a frame to show."""
    return {**RemoteEnv.metadata, "render_modes": list(RENDER_MODES) if specs.renders else []}


def reset_settings(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The settings in the options of a reset."""
    settings = (options or {}).get("settings", {})
    if not isinstance(settings, Mapping):
        raise UsageError(
            f'options["settings"] has the wrong type: expected a dict, received {settings!r}',
            "INVALID_ARGUMENT",
            "give settings of the reset by name",
        )
    return settings
