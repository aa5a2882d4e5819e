# SPDX-License-Identifier: Apache-2.0
"""The specs of an agent as spaces, and its steps packed and unpacked."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dm_env_rpc.v1 import dm_env_rpc_pb2
from gymnasium import spaces

from ._tensors import BatchedSpace, TensorSpace, action_space_of, has_space, observation_space_of
from ._wire import EnvironmentRequest, StepRequest, pack, unpack
from .errors import ActionError, SpecError, UsageError

REWARD = "reward"
DISCOUNT = "discount"

LEGAL_ACTIONS = "legal_actions"
"""Observation that `info["action_mask"]` is read from: bool, an element for each value of the
discrete action; `legal_actions.NAME` where a world masks one of several."""

ACTION_MASK = "action_mask"

BATCH = "batch"
SEATS = "seats"
"""Settings of a join whose tensors have rows."""

WAITING = "waiting"
"""Info of an agent whose step waits, for its turn or to wake up: its next action is ignored."""

TERMINATED = "terminated"
TRUNCATED = "truncated"
RESET_MASK = "reset_mask"
RESET_SEEDS = "reset_seeds"
BEGIN_MASK = "begin_mask"
STEP_TYPE = "step_type"
FINAL = "final"

_LAST = 2
"""`step_type` of a sequence's last step, and of a row without an answer."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """The leading dimension of every tensor of a stream, by docs/protocol-notes.md.

    Attributes:
        count: Length of the dimension.
        setting: Name of the join setting that requests the dimension.
        needed: Names of actions and observations that a server with the setting has.
        observations: Names of the observations that are added to those of one row.
        actions: Names of the actions that are added to those of one row.
    """

    count: int
    setting: str
    needed: frozenset[str]
    observations: Sequence[str]
    actions: Sequence[str]


def batch_of(slots: int) -> Rows:
    """The rows of a batch: an environment in each slot."""
    return Rows(
        slots,
        BATCH,
        frozenset({TERMINATED, TRUNCATED, RESET_MASK}),
        (
            STEP_TYPE,
            TERMINATED,
            TRUNCATED,
            "episode_return",
            "episode_length",
            "slot_failures",
            FINAL,
        ),
        (RESET_MASK, RESET_SEEDS),
    )


def seats_of(agents: int) -> Rows:
    """The rows of several seats in a shared world: an agent in each."""
    return Rows(
        agents,
        SEATS,
        frozenset({STEP_TYPE, TERMINATED, TRUNCATED, BEGIN_MASK}),
        (STEP_TYPE, TERMINATED, TRUNCATED),
        (BEGIN_MASK,),
    )


FRAME = "rgb"
"""Observation that `render` shows: uint8 [height, width, 3]."""

State = dm_env_rpc_pb2.EnvironmentStateType

Frame = npt.NDArray[np.uint8]


class Step(NamedTuple):
    """A response to a step, unpacked."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    frame: Frame | None

    @property
    def ended(self) -> bool:
        """True if the sequence is over."""
        return self.terminated or self.truncated

    @property
    def begun(self) -> bool:
        """True if a first step has begun a sequence."""
        return not self.ended


class BatchStep(NamedTuple):
    """A response to a step of a batch, unpacked: batched as Gymnasium batches."""

    observations: Any
    rewards: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    infos: dict[str, Any]
    frames: Frame | None
    ended: bool
    """True if the server cut every slot short: the next step begins all of them."""

    @property
    def begun(self) -> bool:
        """True if a first step has begun the sequences."""
        return not self.ended


class SeatsStep(NamedTuple):
    """A response to a step of several seats, unpacked: a step of each row."""

    rows: Sequence[Step]

    @property
    def ended(self) -> bool:
        """True if the sequences of all rows have ended in this step."""
        return all(row.ended for row in self.rows)

    @property
    def begun(self) -> bool:
        """True if no row has received the end of an earlier sequence."""
        return not any(row.ended for row in self.rows)


class AgentSpecs:
    """The specs of a joined agent, or of rows.

    Args:
        specs: As the server sent them.
        observations: Names of the observations in the space; by default all that have a space,
            but the reward, the discount and the legal actions.
        actions: Names of the actions in the space; by default all that have a space. Others are
            left out of every step.
        rendered: True to receive the frame with each step.
        rows: Of a batch or of several seats; spaces are those of one. None for one agent.

    Raises:
        SpecError: A name is unknown, or a spec does not fit its purpose.
    """

    def __init__(
        self,
        specs: dm_env_rpc_pb2.ActionObservationSpecs,
        observations: Sequence[str] | None,
        actions: Sequence[str] | None,
        rendered: bool,
        rows: Rows | None = None,
    ) -> None:
        self.sent = specs
        self._rows = rows
        by_name = {spec.name: (uid, spec) for uid, spec in specs.observations.items()}
        self._uid_of = {name: uid for name, (uid, _) in by_name.items()}
        self._control_of = {spec.name: uid for uid, spec in specs.actions.items()}
        if rows is not None:
            _check_rows(specs, rows)
        masks = [name for name in by_name if name.split(".")[0] == LEGAL_ACTIONS]
        of_rows = () if rows is None else rows.observations
        aside = [REWARD, DISCOUNT, *masks]
        aside += [name for name in by_name if name.split(".")[0] in of_rows]
        controls = () if rows is None else rows.actions
        self._observations = _Layout(
            "observation",
            specs.observations,
            observations,
            aside,
            _space_maker(observation_space_of, rows, acts=False),
        )
        self._actions = _Layout(
            "action",
            specs.actions,
            actions,
            controls,
            _space_maker(action_space_of, rows, acts=True),
        )
        self._reward = by_name.get(REWARD)
        leading = [] if rows is None else [rows.count]
        if self._reward is not None and list(self._reward[1].shape) != leading:
            raise SpecError(
                f"observation {REWARD} has the shape {list(self._reward[1].shape)}: expected a "
                "scalar",
                "INVALID_ARGUMENT",
                "add its elements up in the world",
            )
        booleans = [
            spec.name
            for spec in specs.actions.values()
            if spec.dtype == dm_env_rpc_pb2.DataType.BOOL
        ]
        discrete = [
            leaf.name
            for leaf in self._actions.leaves
            if isinstance(leaf.space, spaces.Discrete) and leaf.name not in booleans
        ]
        self._masks = {
            name: by_name[mask]
            for name in discrete
            for mask in (f"{LEGAL_ACTIONS}.{name}", LEGAL_ACTIONS)
            if mask in by_name and (mask != LEGAL_ACTIONS or len(discrete) == 1)
        }
        frame = by_name.get(FRAME)
        self.renders = frame is not None and _is_frame(frame[1], rows)
        self._frame = frame if rendered else None
        if rendered and not self.renders:
            raise SpecError(
                f'render_mode "rgb_array" needs an observation: expected {FRAME}, uint8 [height, '
                f"width, 3], received {'none' if frame is None else 'another dtype or shape'}",
                "FAILED_PRECONDITION",
                "leave render_mode out, or add the observation to the world",
            )
        extra = (self._reward, *self._masks.values(), self._frame)
        requested = {*self._observations.uids, *(uid for uid, _ in filter(None, extra))}
        if rows is not None:
            requested |= {self._uid_of[name] for name in rows.needed if name in self._uid_of}
        if rows is not None and FINAL in rows.observations:
            requested |= {uid for uid in map(self._final_of, requested) if uid is not None}
        self._requested = sorted(requested)
        self._none_begin = None if rows is None else pack(np.zeros(rows.count, np.bool_))

    @property
    def _count(self) -> int:
        assert self._rows is not None
        return self._rows.count

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The only observation's space, or a `Dict`."""
        return self._observations.space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The only action's space, or a `Dict`."""
        return self._actions.space

    def request(self, action: Any) -> Any:
        """A step with an action of the space.

        Raises:
            ActionError: The action does not fit; nothing was sent.
        """
        return self._request(self._actions.encode(action))

    def first_request(self) -> Any:
        """A step that begins a sequence, without actions."""
        return self._request({})

    def reset_request(self, mask: npt.NDArray[np.bool_], seeds: Any) -> Any:
        """A step that begins a sequence in some slots of a batch and leaves the others unchanged.

        Args:
            mask: True for the slots that begin a sequence.
            seeds: One for each slot, or None.

        Raises:
            UsageError: The server cannot seed some slots while other sequences continue.
        """
        actions = {self._control_of[RESET_MASK]: pack(mask)}
        if seeds is not None:
            if RESET_SEEDS not in self._control_of:
                raise UsageError(
                    "the server seeds all slots of a batch or none: expected seeds for all of "
                    f"{self._count}, received some",
                    "UNIMPLEMENTED",
                    "reset all slots, each with a seed or none with one",
                )
            actions[self._control_of[RESET_SEEDS]] = pack(seeds)
        return self._request(actions)

    def seats_request(self, actions: Mapping[int, Any]) -> Any:
        """A step of several seats with actions by row; the other rows do not step.

        Raises:
            ActionError: An action does not fit; nothing was sent.
        """
        encoded = self._actions.encode_rows(actions, self._count)
        return self._request({**encoded, self._control_of[BEGIN_MASK]: self._none_begin})

    def read(self, response: Any) -> Step | BatchStep | SeatsStep:
        """Unpacks a response for one agent, a batch or several seats, depending on the join.

        Raises:
            SpecError: The response lacks a requested observation.
        """
        if self._rows is None:
            return self._read_one(response)
        if self._rows.setting == BATCH:
            return self.read_batch(response)
        return self._read_seats(response)

    def _read_one(self, response: Any) -> Step:
        tensors = response.observations
        self._check_answered(tensors)
        info = {}
        if self._masks:
            info[ACTION_MASK] = self._actions.nested(
                {
                    name: np.array(_value(tensors, mask), np.int8)
                    for name, mask in self._masks.items()
                }
            )
        return Step(
            self._observations.decode(tensors),
            0.0 if self._reward is None else float(_value(tensors, self._reward)),
            response.state == State.TERMINATED,
            response.state == State.INTERRUPTED,
            info,
            None if self._frame is None else np.array(_value(tensors, self._frame)),
        )

    def read_batch(self, response: Any, present: npt.NDArray[np.bool_] | None = None) -> BatchStep:
        """Unpacks a response of a batch.

        Args:
            response: To a step.
            present: The slots that have infos; by default all.

        Raises:
            SpecError: The response lacks a requested observation.
        """
        tensors = response.observations
        self._check_answered(tensors)
        if present is None:
            present = np.ones(self._count, np.bool_)
        terminated = np.array(unpack(tensors[self._uid_of[TERMINATED]]))
        truncated = np.array(unpack(tensors[self._uid_of[TRUNCATED]]))
        all_ended = response.state != State.RUNNING
        if all_ended:
            truncated = truncated | ~terminated
        rewards = np.zeros(self._count) if self._reward is None else _value(tensors, self._reward)
        infos: dict[str, Any] = {}
        if self._masks:
            infos = self._mask_infos(tensors, present)
        finals = self._final_tensors(tensors)
        ended = terminated | truncated
        if finals is not None and ended.any():
            if all_ended:
                finals = tensors
            final_infos = self._mask_infos(finals, ended) if self._masks else {}
            infos |= {"final_info": final_infos, "_final_info": ended.copy()}
            infos |= {"final_obs": self._finals_of(finals, ended), "_final_obs": ended.copy()}
        return BatchStep(
            self._observations.decode(tensors),
            np.array(rewards, np.float64),
            terminated,
            truncated,
            infos,
            None if self._frame is None else np.array(_value(tensors, self._frame)),
            all_ended,
        )

    def _read_seats(self, response: Any) -> SeatsStep:
        tensors = response.observations
        self._check_answered(tensors)
        every = np.arange(self._count)
        observations = self._observations.rows(tensors, every)
        rewards = np.zeros(self._count) if self._reward is None else _value(tensors, self._reward)
        terminated = unpack(tensors[self._uid_of[TERMINATED]])
        truncated = unpack(tensors[self._uid_of[TRUNCATED]])
        waiting = (unpack(tensors[self._uid_of[STEP_TYPE]]) == _LAST) & ~(terminated | truncated)
        legal = {name: _value(tensors, mask) for name, mask in self._masks.items()}
        frames = None if self._frame is None else np.array(_value(tensors, self._frame))
        infos: list[dict[str, Any]] = [{WAITING: True} if row else {} for row in waiting]
        if self._masks:
            for row in every:
                masks = {name: np.array(mask[row], np.int8) for name, mask in legal.items()}
                infos[row][ACTION_MASK] = self._actions.nested(masks)
        return SeatsStep(
            [
                Step(
                    observations[row],
                    float(rewards[row]),
                    bool(terminated[row]),
                    bool(truncated[row]),
                    infos[row],
                    None if frames is None else frames[row],
                )
                for row in every
            ]
        )

    def _final_of(self, uid: int) -> int | None:
        return self._uid_of.get(f"{FINAL}.{self.sent.observations[uid].name}")

    def _final_tensors(self, tensors: Mapping[int, Any]) -> Mapping[int, Any] | None:
        """The last observations under the UIDs of the observations; None but in `same-step`."""
        finals = {uid: self._final_of(uid) for uid in self._requested}
        known = {uid: tensors[final] for uid, final in finals.items() if final is not None}
        return known or None

    def _finals_of(self, tensors: Mapping[int, Any], ended: npt.NDArray[np.bool_]) -> Any:
        slots = np.flatnonzero(ended)
        values = np.full(len(ended), None, object)
        for slot, value in zip(slots, self._observations.rows(tensors, slots), strict=True):
            values[slot] = value
        return values

    def _mask_infos(
        self, tensors: Mapping[int, Any], present: npt.NDArray[np.bool_]
    ) -> dict[str, Any]:
        legal = {
            name: np.array(_value(tensors, mask), np.int8) for name, mask in self._masks.items()
        }
        for rows in legal.values():
            rows[~present] = 0
        return _with_presence({ACTION_MASK: self._actions.nested(legal)}, present)

    def _check_answered(self, tensors: Mapping[int, Any]) -> None:
        missing = [uid for uid in self._requested if uid not in tensors]
        if missing:
            names = [self.sent.observations[uid].name for uid in missing]
            raise SpecError(
                f"step response lacks observations: expected {names} beside the others",
                "INTERNAL",
                "report it to the authors of the world",
            )

    def _request(self, actions: Mapping[int, Any]) -> Any:
        step = StepRequest(requested_observations=self._requested, actions=actions)
        return EnvironmentRequest(step=step)


class _Layout:
    """Tensors as a value: a single one bare, several as a dict, nested at each "." of a name."""

    def __init__(
        self,
        kind: str,
        specs: Mapping[int, dm_env_rpc_pb2.TensorSpec],
        names: Iterable[str] | None,
        aside: Iterable[str],
        make: Callable[[Any], TensorSpace | BatchedSpace],
    ) -> None:
        by_name = {spec.name: (uid, spec) for uid, spec in sorted(specs.items())}
        if names is None:
            chosen = [name for name in by_name if name not in aside and has_space(by_name[name][1])]
        else:
            chosen = list(dict.fromkeys(names))
        unknown = [name for name in chosen if name not in by_name]
        if unknown:
            raise SpecError(
                f"{kind}s= has unknown names: expected some of {list(by_name)}, received {unknown}",
                "INVALID_ARGUMENT",
                f"correct {kind}s=",
            )
        self._kind = kind
        self._leaves = {by_name[name][0]: make(by_name[name][1]) for name in chosen}
        self._paths = {uid: leaf.name.split(".") for uid, leaf in self._leaves.items()}
        self._only = next(iter(self._leaves)) if len(self._leaves) == 1 else None
        tree = self._nested({uid: leaf.space for uid, leaf in self._leaves.items()})
        self.space: spaces.Space[Any] = _dict_space(tree) if isinstance(tree, dict) else tree

    @property
    def uids(self) -> Iterable[int]:
        return self._leaves

    @property
    def leaves(self) -> Iterable[TensorSpace | BatchedSpace]:
        return self._leaves.values()

    def nested(self, values: Mapping[str, Any]) -> Any:
        """Values by name in the form of the space; None for those that are missing."""
        return self._nested({uid: values.get(leaf.name) for uid, leaf in self._leaves.items()})

    def decode(self, tensors: Mapping[int, Any]) -> Any:
        return self._nested({uid: leaf.decode(tensors[uid]) for uid, leaf in self._leaves.items()})

    def rows(self, tensors: Mapping[int, Any], slots: npt.NDArray[np.intp]) -> list[Any]:
        columns = {
            uid: leaf.rows(tensors[uid], slots)
            for uid, leaf in self._leaves.items()
            if isinstance(leaf, BatchedSpace)
        }
        return [
            self._nested({uid: column[index] for uid, column in columns.items()})
            for index in range(len(slots))
        ]

    def encode(self, value: Any) -> dict[int, Any]:
        return {uid: self._leaves[uid].encode(part) for uid, part in self._parts(value).items()}

    def encode_rows(self, values: Mapping[int, Any], count: int) -> dict[int, Any]:
        """Packs the values of some rows; the others have zeros."""
        parts = {row: self._parts(value) for row, value in values.items()}
        return {
            uid: leaf.encode_rows({row: part[uid] for row, part in parts.items()}, count)
            for uid, leaf in self._leaves.items()
            if isinstance(leaf, BatchedSpace)
        }

    def _parts(self, value: Any) -> dict[int, Any]:
        """The parts of a value by the UIDs of their tensors."""
        if self._only is not None:
            return {self._only: value}
        flat = dict(_flat(value)) if isinstance(value, Mapping) else {}
        names = {leaf.name for leaf in self._leaves.values()}
        if not isinstance(value, Mapping) or flat.keys() != names:
            received = sorted(flat) if isinstance(value, Mapping) else repr(value)
            raise ActionError(
                f"{self._kind} does not fit: expected a dict of {sorted(names)}, received "
                f"{received}",
                "INVALID_ARGUMENT",
                f"give all of them, or choose some with {self._kind}s=; nothing was sent",
            )
        return {uid: flat[leaf.name] for uid, leaf in self._leaves.items()}

    def _nested(self, values: Mapping[int, Any]) -> Any:
        if self._only is not None:
            return values[self._only]
        tree: dict[str, Any] = {}
        for uid, value in values.items():
            *parents, last = self._paths[uid]
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = value
        return tree


def _dict_space(tree: Mapping[str, Any]) -> spaces.Dict:
    return spaces.Dict(
        {name: _dict_space(node) if isinstance(node, dict) else node for name, node in tree.items()}
    )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, node in tree.items():
        if isinstance(node, Mapping):
            yield from _flat(node, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", node


def _value(tensors: Mapping[int, Any], named: tuple[int, Any]) -> Any:
    return unpack(tensors[named[0]])


def _is_frame(spec: dm_env_rpc_pb2.TensorSpec, rows: Rows | None) -> bool:
    shape = spec.shape if rows is None else spec.shape[1:]
    return spec.dtype == dm_env_rpc_pb2.DataType.UINT8 and len(shape) == 3 and shape[2] == 3


def _space_maker(
    make: Callable[[Any], TensorSpace], rows: Rows | None, *, acts: bool
) -> Callable[[Any], TensorSpace | BatchedSpace]:
    if rows is None:
        return make
    return lambda spec: BatchedSpace(spec, rows.count, make, acts=acts)


def _check_rows(specs: dm_env_rpc_pb2.ActionObservationSpecs, rows: Rows) -> None:
    """Checks that a server that accepted the setting of rows supports it."""
    every = [*specs.observations.values(), *specs.actions.values()]
    missing = rows.needed - {spec.name for spec in every}
    if missing or any(list(spec.shape[:1]) != [rows.count] for spec in every):
        raise SpecError(
            f"specs are not those of {rows.setting}: expected {sorted(rows.needed)}, and a "
            f"dimension of {rows.count} first in every shape",
            "UNIMPLEMENTED",
            f"join without the setting {rows.setting}",
        )


def _with_presence(tree: Mapping[str, Any], present: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Infos of slots, each with a mask of the slots that have it, as in Gymnasium's vectors."""
    infos: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            value = _with_presence(value, present)
        elif value is None:
            value = np.full(len(present), None, object)
        infos |= {name: value, f"_{name}": present.copy()}
    return infos
