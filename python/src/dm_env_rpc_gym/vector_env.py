# SPDX-License-Identifier: Apache-2.0
"""Many agents, each in a world of its own, as a vector environment of Gymnasium."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from typing_extensions import Unpack

from ._batches import Batches
from ._options import Caller, Options
from ._slots import Slots
from ._streams import Streams
from .env import metadata_of, reset_settings
from .errors import ServerError, SpecError, UsageError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class RemoteVectorEnv(VectorEnv[Any, Any, Any]):
    """Many environments, stepped together.

    The semantics are those of `gymnasium.vector.SyncVectorEnv` over a `RemoteEnv` per slot. If the
    server supports it, all slots of an address are a batch: one message per step carries all of
    them. Otherwise each slot has its own stream and its own world, and a step sends all requests at
    once.

    After an error other than an `ActionError`, call `reset`, which connects again if necessary.

    Args:
        address: `host:port` of the server, or several over which the slots are distributed in turn.
        num_envs: Number of slots.
        autoreset_mode: What follows the end of a slot's sequence: the next step begins another
            (`"NextStep"`), the same step has done so already (`"SameStep"`), or the caller resets
            with `options["reset_mask"]` (`"Disabled"`).
        **options: Keyword arguments of `Options`.

    Raises:
        RequestTimeoutError: No connection, or no answer.
        ServerError: The server refused a world or its settings.
        SpecError: The worlds' specs do not fit the options, or each other.

    Example:
        >>> envs = RemoteVectorEnv("localhost:8980", 16)
        >>> observations, infos = envs.reset(seed=1)
    """

    def __init__(
        self,
        address: str | Sequence[str],
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **options: Unpack[Options],
    ) -> None:
        self.closed = True
        if num_envs < 1:
            raise UsageError(
                f"num_envs is out of range: expected 1 or more, received {num_envs}",
                "INVALID_ARGUMENT",
                "correct it",
            )
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = options.get("render_mode")
        self._caller = Caller(options)
        self._slots = self._join([address] if isinstance(address, str) else list(address), options)
        self.closed = False
        specs = self._slots.specs
        self.metadata = {**metadata_of(specs), "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = specs.observation_space
        self.single_action_space = specs.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended: Bools = np.zeros(num_envs, np.bool_)
        self._stale: Bools = np.ones(num_envs, np.bool_)

    @property
    def batched(self) -> bool:
        """True if one stream to each address carries all of its slots."""
        return isinstance(self._slots, Batches)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence in every slot, or in those of `options["reset_mask"]`.

        Args:
            seed: Seed of slot 0, increased by 1 for each next slot, or one seed for each slot. Sent
                as in `RemoteEnv.reset`.
            options: `options["settings"]` are settings of the resets.
        """
        self._check_open()
        seeds = self._seeds(seed)
        mask = self._mask(options)
        settings = reset_settings(options)
        self._stale[mask] = True
        begun = self._slots.reset(seeds, mask, settings)
        self._stale[mask] = False
        self._ended[mask] = False
        return begun

    def step(self, actions: Any) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """Steps every slot with its action of the action space.

        Raises:
            ActionError: An action does not fit; nothing was sent.
        """
        self._check_open()
        if self._stale.any():
            raise UsageError(
                f"slots {np.flatnonzero(self._stale).tolist()} are in no sequence",
                "FAILED_PRECONDITION",
                "call reset() first",
            )
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise UsageError(
                f"slots {np.flatnonzero(self._ended).tolist()} have ended, and autoreset_mode is "
                "disabled",
                "FAILED_PRECONDITION",
                'reset them with options={"reset_mask": ...}',
            )
        requests = self._slots.requests(actions, self._ended)
        self._stale[:] = True
        stepped = self._slots.step(requests, self._ended)
        self._stale[:] = False
        _, _, terminated, truncated, _ = stepped
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._ended = terminated | truncated
        return stepped

    def render(self) -> tuple[Any, ...] | None:
        """Returns the frame of each slot's last step, if `render_mode` is `"rgb_array"`."""
        return None if self.render_mode is None else self._slots.frames()

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every slot; never raises."""
        self._slots.close()

    def _join(self, addresses: Sequence[str], options: Options) -> Slots:
        hosts = [self._caller.host(address) for address in addresses]
        arguments = (self._caller, hosts, options, self.num_envs, self.autoreset_mode)
        try:
            return Batches(*arguments)
        except SpecError:
            return Streams(*arguments)
        except ServerError as error:
            if error.code == "RESOURCE_EXHAUSTED":
                raise
            # A server without batches refuses the setting; other errors occur again with streams.
            return Streams(*arguments)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise UsageError(
                f"seed has the wrong length: expected {self.num_envs}, received {len(seed)}",
                "INVALID_ARGUMENT",
                "give one for each slot",
            )
        return seed

    def _mask(self, options: Mapping[str, Any] | None) -> Bools:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != (self.num_envs,)
            or not mask.any()
        ):
            raise UsageError(
                f'options["reset_mask"] does not fit: expected bool [{self.num_envs}] with at '
                f"least one True, received {mask!r}",
                "INVALID_ARGUMENT",
                "correct it",
            )
        return mask

    def _check_open(self) -> None:
        if self.closed:
            raise UsageError("the environment is closed", "FAILED_PRECONDITION", "create a new one")
