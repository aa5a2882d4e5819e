# SPDX-License-Identifier: Apache-2.0
"""Slots that have a stream and a world each."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ._agent_specs import AgentSpecs, Frame, Step
from ._options import Caller, Options
from ._session import Session, gather
from ._slots import Bools, Stepped
from ._stream import Host
from .errors import RemoteError, SpecError


class Streams:
    """Slots that have a stream and a world each, dealt out over hosts.

    Raises:
        SpecError: The worlds' specs do not fit the options, or each other.
    """

    def __init__(
        self,
        caller: Caller,
        hosts: Sequence[Host],
        options: Options,
        num_envs: int,
        autoreset_mode: AutoresetMode,
    ) -> None:
        self._caller = caller
        self._same_step = autoreset_mode is AutoresetMode.SAME_STEP
        self._sessions = [Session(hosts[index % len(hosts)], options) for index in range(num_envs)]
        try:
            self._together({i: one.open() for i, one in enumerate(self._sessions)}, "joining")
            self._specs = [session.specs[0] for session in self._sessions]
            self._check_alike()
        except BaseException:
            self.close()
            raise
        self._space = self.specs.observation_space
        self._action_space = batch_space(self.specs.action_space, num_envs)
        self._infos: VectorEnv[Any, Any, Any] = VectorEnv()
        self._infos.num_envs = num_envs
        self._latest: list[Any] = [None] * num_envs
        self._frames: list[Frame | None] = [None] * num_envs

    @property
    def specs(self) -> AgentSpecs:
        """The specs of each slot."""
        return self._specs[0]

    def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the sequences of the slots of a mask."""
        slots = [int(index) for index in np.flatnonzero(mask)]
        begun = self._together(
            {index: self._sessions[index].reset(seeds[index], settings) for index in slots},
            "reset",
        )
        infos: dict[str, Any] = {}
        for index, [step] in begun.items():
            self._sessions[index].warn_of_seeds()
            infos = self._keep(index, step, infos)
        return self._observations(), infos

    def requests(self, actions: Any, beginning: Bools) -> dict[int, Any]:
        """Packs the steps of the slots that are not beginning."""
        return {
            index: self._specs[index].request(action)
            for index, action in enumerate(iterate(self._action_space, actions))
            if not beginning[index]
        }

    def step(self, requests: Mapping[int, Any], beginning: Bools) -> Stepped:
        """Steps every slot; those that are beginning have ended, and begin anew."""
        answers = self._together(
            {
                index: session.step({0: requests[index]})
                if index in requests
                else session.first_steps()
                for index, session in enumerate(self._sessions)
            },
            "step",
        )
        steps: dict[int, Step] = {index: step for index, [step] in answers.items()}
        rewards = np.array(
            [0.0 if beginning[index] else step.reward for index, step in steps.items()], np.float64
        )
        terminated = np.array([step.terminated for step in steps.values()], np.bool_)
        truncated = np.array([step.truncated for step in steps.values()], np.bool_)
        ended = terminated | truncated
        infos: dict[str, Any] = {}
        if self._same_step and ended.any():
            begun = self._together(
                {int(i): self._sessions[i].first_steps() for i in np.flatnonzero(ended)},
                "autoreset",
            )
            for index, [first] in begun.items():
                last = steps[index]
                final = {"final_obs": last.observation, "final_info": last.info}
                infos = self._infos._add_info(infos, final, index)
                steps[index] = first
        for index, step in steps.items():
            infos = self._keep(index, step, infos)
        return self._observations(), rewards, terminated, truncated, infos

    def frames(self) -> tuple[Any, ...]:
        """The frame of each slot's last step."""
        return tuple(None if frame is None else frame.copy() for frame in self._frames)

    def close(self) -> None:
        """Closes every slot; never raises."""
        self._caller.close(gather(session.close() for session in self._sessions))

    def _check_alike(self) -> None:
        first = self._specs[0]
        for index, other in enumerate(self._specs):
            if (other.observation_space, other.action_space) != (
                first.observation_space,
                first.action_space,
            ):
                raise SpecError(
                    f"slot {index} has other specs than slot 0",
                    "FAILED_PRECONDITION",
                    "give servers of the same world",
                )

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
        return self._infos._add_info(infos, step.info, index)

    def _observations(self) -> Any:
        batch: Any = create_empty_array(self._space, len(self._latest))
        return concatenate(self._space, self._latest, batch)
