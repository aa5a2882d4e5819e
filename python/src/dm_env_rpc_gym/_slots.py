# SPDX-License-Identifier: Apache-2.0
"""What steps the slots of a vector environment."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ._agent_specs import AgentSpecs

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Stepped = tuple[Any, Floats, Bools, Bools, dict[str, Any]]
"""Observations, rewards, terminated, truncated and infos."""


class Slots(Protocol):
    """The slots of a vector environment, on one stream or on many."""

    @property
    def specs(self) -> AgentSpecs:
        """The specs of each slot."""

    def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the sequences of the slots of a mask."""

    def requests(self, actions: Any, beginning: Bools) -> Any:
        """Packs a step.

        Raises:
            ActionError: An action does not fit.
        """

    def step(self, requests: Any, beginning: Bools) -> Stepped:
        """Steps every slot; those that are beginning have ended, and begin anew."""

    def frames(self) -> tuple[Any, ...]:
        """The frame of each slot's last step."""

    def close(self) -> None:
        """Closes every slot; never raises."""
