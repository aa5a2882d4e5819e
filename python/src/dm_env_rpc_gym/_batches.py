# SPDX-License-Identifier: Apache-2.0
"""Slots that are joined as a batch: all slots of an address share one stream."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from ._agent_specs import AgentSpecs, BatchStep, Frame, batch_of
from ._options import Caller, Options
from ._session import Session
from ._slots import Bools, JoinedSlots, Stepped
from ._stream import Host
from .errors import UsageError

_MODES = {
    AutoresetMode.NEXT_STEP: "next-step",
    AutoresetMode.SAME_STEP: "same-step",
    AutoresetMode.DISABLED: "disabled",
}

Indices = npt.NDArray[np.intp]


class _Batch:
    """The slots of one address."""

    def __init__(
        self, host: Host, options: Options, slots: Indices, autoreset_mode: AutoresetMode
    ) -> None:
        self.slots = slots
        join = {
            **options.get("join_settings", {}),
            "autoreset": _MODES[autoreset_mode],
        }
        self.session = Session(host, {**options, "join_settings": join}, rows=batch_of(len(slots)))
        self._same_step = autoreset_mode is AutoresetMode.SAME_STEP
        self._ended = True

    @property
    def specs(self) -> AgentSpecs:
        return self.session.specs[0]

    async def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> BatchStep:
        step: BatchStep
        session = self.session
        values = np.array([seed or 0 for seed in seeds], np.uint64)
        seeded = mask & np.array([seed is not None for seed in seeds])
        if mask.all() or self._ended or session.lost:
            mask = np.ones_like(mask)
            if seeded.all():
                [step] = await session.reset(values, settings)
                seeded = np.zeros_like(mask)
            else:
                [step] = await session.reset(None, settings)
            self._ended = False
        elif settings:
            raise UsageError(
                'options["settings"] goes to all slots of a batch: received it with a '
                "reset_mask of some",
                "UNIMPLEMENTED",
                "reset all slots",
            )
        elif not seeded.any() or (mask & ~seeded).any():
            step = await session.restart(mask & ~seeded, None, mask)
        if seeded.any():
            step = await session.restart(seeded, values, mask)
        return step

    async def step(self, request: Any) -> BatchStep:
        step: BatchStep
        if self._ended:
            [step] = await self.session.first_steps()
            self._ended = False
            return step
        [step] = await self.session.step({0: request})
        if not step.ended or not self._same_step:
            self._ended = step.ended
            return step
        [first] = await self.session.first_steps()
        return step._replace(
            observations=first.observations,
            frames=first.frames,
            infos={**step.infos, **first.infos},
        )


class Batches(JoinedSlots):
    """Slots that are joined as a batch on each host, distributed over the hosts in turn.

    Raises:
        ServerError: A server refused a world or its settings, such as those of a batch.
        SpecError: The worlds' specs do not fit the options, or each other, or are not a batch's.
    """

    def __init__(
        self,
        caller: Caller,
        hosts: Sequence[Host],
        options: Options,
        num_envs: int,
        autoreset_mode: AutoresetMode,
    ) -> None:
        self._num_envs = num_envs
        dealt = [np.arange(index, num_envs, len(hosts)) for index in range(len(hosts))]
        self._batches = [
            _Batch(host, options, slots, autoreset_mode)
            for host, slots in zip(hosts, dealt, strict=True)
            if len(slots) > 0
        ]
        super().__init__(caller, {int(batch.slots[0]): batch.session for batch in self._batches})
        self._frames: Frame | None = None

    def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence in each slot that a mask selects."""
        begun = self._in_batches(
            (
                batch.reset([seeds[slot] for slot in batch.slots], mask[batch.slots], settings)
                for batch in self._batches
            ),
            "reset",
        )
        for batch in self._batches:
            batch.session.warn_of_seeds()
        step = self._joined(begun)
        return step.observations, step.infos

    def requests(self, actions: Any, beginning: Bools) -> list[Any]:
        """Packs a step of each batch."""
        del beginning
        if len(self._batches) == 1:
            return [self.specs.request(actions)]
        space = self.specs.action_space
        return [batch.specs.request(_take(space, actions, batch.slots)) for batch in self._batches]

    def step(self, requests: Sequence[Any], beginning: Bools) -> Stepped:
        """Steps every slot; the server tracks which of them have ended."""
        del beginning
        steps = self._in_batches(
            (batch.step(request) for batch, request in zip(self._batches, requests, strict=True)),
            "step",
        )
        step = self._joined(steps)
        return step.observations, step.rewards, step.terminated, step.truncated, step.infos

    def frames(self) -> tuple[Any, ...]:
        """The frame of each slot's last step."""
        frames = self._frames
        return (None,) * self._num_envs if frames is None else tuple(frames.copy())

    def _in_batches(self, calls: Iterable[Coroutine[Any, Any, Any]], what: str) -> list[Any]:
        """Runs a call in each batch at once."""
        return list(self._together(dict(zip(self._sessions, calls, strict=True)), what).values())

    def _joined(self, steps: Sequence[BatchStep]) -> BatchStep:
        """The steps of all batches as one of all slots."""
        if len(steps) == 1:
            [step] = steps
        else:
            space = self.specs.observation_space
            every = [batch.slots for batch in self._batches]
            count = self._num_envs
            step = BatchStep(
                _put(space, [step.observations for step in steps], every, count),
                _put_rows([step.rewards for step in steps], every, count),
                _put_rows([step.terminated for step in steps], every, count),
                _put_rows([step.truncated for step in steps], every, count),
                _put_infos([step.infos for step in steps], every, count),
                None
                if steps[0].frames is None
                else _put_rows([step.frames for step in steps], every, count),
                False,
            )
        self._frames = step.frames
        return step


def _take(space: spaces.Space[Any], values: Any, slots: Indices) -> Any:
    """The batched values of some slots."""
    if isinstance(space, spaces.Dict):
        return {name: _take(inner, values[name], slots) for name, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_take(inner, value, slots) for inner, value in zip(space, values, strict=True))
    if isinstance(space, spaces.Text):
        return tuple(values[slot] for slot in slots)
    return np.asarray(values)[slots]


def _put(
    space: spaces.Space[Any], parts: Sequence[Any], every: Sequence[Indices], count: int
) -> Any:
    """The batched values of all slots, from those of each batch."""
    if isinstance(space, spaces.Dict):
        return {
            name: _put(inner, [part[name] for part in parts], every, count)
            for name, inner in space.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            _put(inner, [part[index] for part in parts], every, count)
            for index, inner in enumerate(space)
        )
    if isinstance(space, spaces.Text):
        texts = _put_rows([np.array(part, object) for part in parts], every, count)
        return tuple(texts)
    return _put_rows(parts, every, count)


def _put_rows(parts: Sequence[Any], every: Sequence[Indices], count: int) -> Any:
    first = parts[0]
    rows = np.zeros((count, *first.shape[1:]), first.dtype)
    for part, slots in zip(parts, every, strict=True):
        rows[slots] = part
    return rows


def _put_infos(
    parts: Sequence[Mapping[str, Any]], every: Sequence[Indices], count: int
) -> dict[str, Any]:
    """Infos of all slots; a batch lacks an info that none of its slots has."""
    infos: dict[str, Any] = {}
    for name in {name: None for part in parts for name in part}:
        having = [
            (part[name], slots) for part, slots in zip(parts, every, strict=True) if name in part
        ]
        values, slots = [value for value, _ in having], [of for _, of in having]
        if isinstance(values[0], Mapping):
            infos[name] = _put_infos(values, slots, count)
        elif values[0].dtype == object:
            rows = np.full(count, None, object)
            for value, of in having:
                rows[of] = value
            infos[name] = rows
        else:
            infos[name] = _put_rows(values, slots, count)
    return infos
