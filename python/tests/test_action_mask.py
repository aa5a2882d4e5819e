# SPDX-License-Identifier: Apache-2.0
"""Observations of legal actions are masks in the form of the action space."""

import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_utils
from gymnasium import spaces
from test_spaces import Type, spec_of

from dm_env_rpc_gym._agent_specs import AgentSpecs


def specs_of(actions, masks, chosen=None):
    """Specs of named actions and masks, and a response that has these masks."""
    sent = dm_env_rpc_pb2.ActionObservationSpecs()
    response = dm_env_rpc_pb2.StepResponse(state=dm_env_rpc_pb2.EnvironmentStateType.RUNNING)
    for uid, (name, spec) in enumerate(actions.items()):
        sent.actions[uid].CopyFrom(spec)
        sent.actions[uid].name = name
    for uid, (name, mask) in enumerate(masks.items()):
        sent.observations[uid].CopyFrom(spec_of(Type.BOOL, (len(mask),)))
        sent.observations[uid].name = name
        response.observations[uid].CopyFrom(tensor_utils.pack_tensor(np.array(mask)))
    return AgentSpecs(sent, None, chosen, rendered=False), response


MOVE = spec_of(Type.INT8, (), 0, 2)
AIM = spec_of(Type.INT32, (), -1, 1)
PUSH = spec_of(Type.FLOAT, (), -1, 1)


@pytest.mark.parametrize(
    ("actions", "masks", "chosen", "expected"),
    [
        ({"move": MOVE}, {"legal_actions": [True, False, True]}, None, [1, 0, 1]),
        (
            {"move": MOVE, "push": PUSH, "jump": spec_of(Type.BOOL)},
            {"legal_actions": [True, False, True]},
            None,
            {"move": [1, 0, 1], "push": None, "jump": None},
        ),
        (
            {"move": MOVE, "arm.aim": AIM},
            {"legal_actions.arm.aim": [False, False, True]},
            None,
            {"move": None, "arm": {"aim": [0, 0, 1]}},
        ),
        (
            {"move": MOVE, "aim": AIM},
            {"legal_actions.move": [True, False, False], "legal_actions.aim": [False, True, True]},
            ["aim"],
            [0, 1, 1],
        ),
    ],
)
def test_the_mask_is_one_that_the_action_space_samples_with(actions, masks, chosen, expected):
    specs, response = specs_of(actions, masks, chosen)
    assert specs.observation_space == spaces.Dict({})
    mask = specs.read(response).info["action_mask"]
    np.testing.assert_equal(mask, expected)
    for _ in range(20):
        assert specs.action_space.sample(mask=mask) in specs.action_space
