# SPDX-License-Identifier: Apache-2.0
"""What an agent does and sees, as spaces: its specs, and the steps that they pack and unpack."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dm_env_rpc.v1 import dm_env_rpc_pb2
from gymnasium import spaces

from ._tensors import TensorSpace, action_space_of, has_space, observation_space_of
from ._wire import EnvironmentRequest, StepRequest, unpack
from .errors import ActionError, SpecError

REWARD = "reward"
DISCOUNT = "discount"

LEGAL_ACTIONS = "legal_actions"
"""Observation that `info["action_mask"]` is read from: bool, an element for each value of the
discrete action; `legal_actions.NAME` where a world masks one of several."""

ACTION_MASK = "action_mask"

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


class AgentSpecs:
    """The specs of a joined agent.

    Args:
        specs: As the server sent them.
        observations: Names of the observations in the space; by default all that have a space,
            but the reward, the discount and the legal actions.
        actions: Names of the actions in the space; by default all that have a space. Others are
            left out of every step.
        rendered: True to receive the frame with each step.

    Raises:
        SpecError: A name is unknown, or a spec does not fit its purpose.
    """

    def __init__(
        self,
        specs: dm_env_rpc_pb2.ActionObservationSpecs,
        observations: Sequence[str] | None,
        actions: Sequence[str] | None,
        rendered: bool,
    ) -> None:
        self.sent = specs
        by_name = {spec.name: (uid, spec) for uid, spec in specs.observations.items()}
        masks = [name for name in by_name if name.split(".")[0] == LEGAL_ACTIONS]
        aside = (REWARD, DISCOUNT, *masks)
        self._observations = _Layout(
            "observation", specs.observations, observations, aside, observation_space_of
        )
        self._actions = _Layout("action", specs.actions, actions, (), action_space_of)
        self._reward = by_name.get(REWARD)
        if self._reward is not None and self._reward[1].shape:
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
        self.renders = frame is not None and _is_frame(frame[1])
        self._frame = frame if rendered else None
        if rendered and not self.renders:
            raise SpecError(
                f'render_mode "rgb_array" needs an observation: expected {FRAME}, uint8 [height, '
                f"width, 3], received {'none' if frame is None else 'another dtype or shape'}",
                "FAILED_PRECONDITION",
                "leave render_mode out, or add the observation to the world",
            )
        extra = (self._reward, *self._masks.values(), self._frame)
        self._requested = sorted(
            {*self._observations.uids, *(uid for uid, _ in filter(None, extra))}
        )

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
            ActionError: It does not fit; nothing was sent.
        """
        return self._request(self._actions.encode(action))

    def first_request(self) -> Any:
        """A step that begins a sequence: it needs no action."""
        return self._request({})

    def read(self, response: Any) -> Step:
        """Unpacks a response.

        Raises:
            SpecError: The server left out what was requested.
        """
        tensors = response.observations
        missing = [uid for uid in self._requested if uid not in tensors]
        if missing:
            names = [self.sent.observations[uid].name for uid in missing]
            raise SpecError(
                f"step response lacks observations: expected {names} beside the others",
                "INTERNAL",
                "report it to the authors of the world",
            )
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

    def _request(self, actions: Mapping[int, Any]) -> Any:
        step = StepRequest(requested_observations=self._requested, actions=actions)
        return EnvironmentRequest(step=step)


class _Layout:
    """Tensors by name, as a value: the only one bare, several in a dict that a "." nests."""

    def __init__(
        self,
        kind: str,
        specs: Mapping[int, dm_env_rpc_pb2.TensorSpec],
        names: Iterable[str] | None,
        aside: Iterable[str],
        make: Callable[[dm_env_rpc_pb2.TensorSpec], TensorSpace],
    ) -> None:
        by_name = {spec.name: (uid, spec) for uid, spec in sorted(specs.items())}
        if names is None:
            chosen = [name for name in by_name if name not in aside and has_space(by_name[name][1])]
        else:
            chosen = list(dict.fromkeys(names))
        unknown = [name for name in chosen if name not in by_name]
        if unknown:
            raise SpecError(
                f"{kind}s {unknown} are unknown: expected some of {list(by_name)}",
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
    def leaves(self) -> Iterable[TensorSpace]:
        return self._leaves.values()

    def nested(self, values: Mapping[str, Any]) -> Any:
        """Values by name in the form of the space; None for those that are missing."""
        return self._nested({uid: values.get(leaf.name) for uid, leaf in self._leaves.items()})

    def decode(self, tensors: Mapping[int, Any]) -> Any:
        return self._nested({uid: leaf.decode(tensors[uid]) for uid, leaf in self._leaves.items()})

    def encode(self, value: Any) -> dict[int, Any]:
        if self._only is not None:
            return {self._only: self._leaves[self._only].encode(value)}
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
        return {uid: leaf.encode(flat[leaf.name]) for uid, leaf in self._leaves.items()}

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


def _is_frame(spec: dm_env_rpc_pb2.TensorSpec) -> bool:
    return spec.dtype == dm_env_rpc_pb2.DataType.UINT8 and (
        len(spec.shape) == 3 and spec.shape[2] == 3
    )
