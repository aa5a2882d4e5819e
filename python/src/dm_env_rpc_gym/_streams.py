# SPDX-License-Identifier: Apache-2.0
"""Slots that have a stream and a world each."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ._agent_specs import Frame, Step
from ._options import Caller, Options
from ._session import Session
from ._slots import Bools, JoinedSlots, Stepped
from ._stream import Host
from .errors import RemoteError


class Streams(JoinedSlots):
    """Slots that have a stream and a world each, distributed over hosts.

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
        self._same_step = autoreset_mode is AutoresetMode.SAME_STEP
        super().__init__(
            caller,
            {slot: Session(hosts[slot % len(hosts)], options) for slot in range(num_envs)},
        )
        self._specs = [session.specs[0] for session in self._sessions.values()]
        self._space = self.specs.observation_space
        self._action_space = batch_space(self.specs.action_space, num_envs)
        self._infos: VectorEnv[Any, Any, Any] = VectorEnv()
        self._infos.num_envs = num_envs
        self._latest: list[Any] = [None] * num_envs
        self._frames: list[Frame | None] = [None] * num_envs

    def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence in each slot that a mask selects."""
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
        """Steps every slot; the slots in `beginning` have ended and begin their next sequence."""
        answers = self._together(
            {
                index: session.step({0: requests[index]})
                if index in requests
                else session.first_steps()
                for index, session in self._sessions.items()
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
                {i: self._sessions[i].first_steps() for i in map(int, np.flatnonzero(ended))},
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

    async def _run(self, slot: int, call: Coroutine[Any, Any, Any]) -> Any:
        """Runs the call of a slot, and names the slot in its error."""
        try:
            return await call
        except RemoteError as error:
            raise type(error)(f"slot {slot}: {error.message}", error.code, error.remedy) from error

    def _keep(self, index: int, step: Step, infos: dict[str, Any]) -> dict[str, Any]:
        self._latest[index] = step.observation
        self._frames[index] = step.frame
        return self._infos._add_info(infos, step.info, index)

    def _observations(self) -> Any:
        batch: Any = create_empty_array(self._space, len(self._latest))
        return concatenate(self._space, self._latest, batch)
