# SPDX-License-Identifier: Apache-2.0
"""Many agents, each in a world of its own, as a vector environment of Gymnasium."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from typing_extensions import Unpack

from ._agent_specs import Frame, Step
from ._options import Caller, Options
from ._session import Session, gather
from .env import metadata_of, reset_settings
from .errors import RemoteError, SpecError, UsageError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class RemoteVectorEnv(VectorEnv[Any, Any, Any]):
    """Many agents, each in a world of its own, stepped together.

    The semantics are those of `gymnasium.vector.SyncVectorEnv` over as many `RemoteEnv`, with all
    requests under way at once. After an error other than an `ActionError` the next call is
    `reset`, which connects again where it has to.

    Args:
        address: `host:port` of the server. Of several, each takes its turn as slots are dealt out.
        num_envs: How many slots.
        autoreset_mode: What follows the end of a slot's sequence: the next step begins another
            (`"NextStep"`), the same step has done so already (`"SameStep"`), or the caller resets
            with `options["reset_mask"]` (`"Disabled"`).
        **options: As `Options` has them.

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
        addresses = [address] if isinstance(address, str) else list(address)
        hosts = [self._caller.host(one) for one in addresses]
        self._sessions = [Session(hosts[index % len(hosts)], options) for index in range(num_envs)]
        self.closed = False
        try:
            self._together({i: one.open() for i, one in enumerate(self._sessions)}, "joining")
            specs = [session.specs[0] for session in self._sessions]
            for index, other in enumerate(specs):
                if (other.observation_space, other.action_space) != (
                    specs[0].observation_space,
                    specs[0].action_space,
                ):
                    raise SpecError(
                        f"slot {index} has other specs than slot 0",
                        "FAILED_PRECONDITION",
                        "give servers of the same world",
                    )
        except BaseException:
            self.close()
            raise
        self._specs = specs
        self.metadata = {**metadata_of(specs[0]), "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = specs[0].observation_space
        self.single_action_space = specs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._latest: list[Any] = [None] * num_envs
        self._frames: list[Frame | None] = [None] * num_envs
        self._ended: Bools = np.zeros(num_envs, np.bool_)
        self._stale: Bools = np.ones(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence in every slot, or in those of `options["reset_mask"]`.

        Args:
            seed: Of slot 0, counted up for the others; or one for each. As in `RemoteEnv.reset`.
            options: `options["settings"]` are settings of the resets.
        """
        self._check_open()
        seeds = self._seeds(seed)
        mask = self._mask(options)
        settings = reset_settings(options)
        slots = [int(index) for index in np.flatnonzero(mask)]
        self._stale[mask] = True
        begun = self._together(
            {index: self._sessions[index].reset(seeds[index], settings) for index in slots},
            "reset",
        )
        self._stale[mask] = False
        self._ended[mask] = False
        infos: dict[str, Any] = {}
        for index, [step] in begun.items():
            self._sessions[index].warn_of_seeds()
            infos = self._keep(index, step, infos)
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """Steps every slot with its action of the action space.

        Raises:
            ActionError: One does not fit; nothing was sent.
        """
        self._check_open()
        if self._stale.any():
            raise UsageError(
                f"slots {np.flatnonzero(self._stale).tolist()} are in no sequence",
                "FAILED_PRECONDITION",
                "call reset() first",
            )
        beginning = self._ended.copy()
        if self.autoreset_mode is AutoresetMode.DISABLED and beginning.any():
            raise UsageError(
                f"slots {np.flatnonzero(beginning).tolist()} have ended, and autoreset_mode is "
                "disabled",
                "FAILED_PRECONDITION",
                'reset them with options={"reset_mask": ...}',
            )
        requests = {
            index: self._specs[index].request(action)
            for index, action in enumerate(iterate(self.action_space, actions))
            if not beginning[index]
        }
        self._stale[:] = True
        answers = self._together(
            {
                index: session.step({0: requests[index]})
                if index in requests
                else session.first_steps()
                for index, session in enumerate(self._sessions)
            },
            "step",
        )
        steps = {index: step for index, [step] in answers.items()}
        rewards = np.array(
            [0.0 if beginning[index] else step.reward for index, step in steps.items()], np.float64
        )
        terminated = np.array([step.terminated for step in steps.values()], np.bool_)
        truncated = np.array([step.truncated for step in steps.values()], np.bool_)
        ended = terminated | truncated
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            begun = self._together(
                {int(i): self._sessions[i].first_steps() for i in np.flatnonzero(ended)},
                "autoreset",
            )
            for index, [first] in begun.items():
                last = steps[index]
                final = {"final_obs": last.observation, "final_info": last.info}
                infos = self._add_info(infos, final, index)
                steps[index] = first
            self._ended[:] = False
        else:
            self._ended = ended
        self._stale[:] = False
        for index, step in steps.items():
            infos = self._keep(index, step, infos)
        return self._observations(), rewards, terminated, truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """Returns the frame of each slot's last step, if `render_mode` is `"rgb_array"`."""
        if self.render_mode is None:
            return None
        return tuple(None if frame is None else frame.copy() for frame in self._frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every slot; never raises."""
        self._caller.close(gather(session.close() for session in self._sessions))

    def _together(self, calls: Mapping[int, Coroutine[Any, Any, Any]], what: str) -> dict[int, Any]:
        """Runs a call in each of some slots at once, and names the slot in the first error."""

        async def in_slot(index: int, call: Coroutine[Any, Any, Any]) -> Any:
            try:
                return await call
            except RemoteError as error:
                raise type(error)(
                    f"slot {index}: {error.message}", error.code, error.remedy
                ) from error

        results = self._caller.call(gather(in_slot(i, call) for i, call in calls.items()), what)
        return dict(zip(calls, results, strict=True))

    def _keep(self, index: int, step: Step, infos: dict[str, Any]) -> dict[str, Any]:
        self._latest[index] = step.observation
        self._frames[index] = step.frame
        return self._add_info(infos, step.info, index)

    def _observations(self) -> Any:
        space = self.single_observation_space
        batch: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, self._latest, batch)

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
            raise UsageError("the environment is closed", "FAILED_PRECONDITION", "make a new one")
