# SPDX-License-Identifier: Apache-2.0
"""Errors can be sent to another process."""

import pickle

import pytest

import dm_env_rpc_gym as remote

ERRORS = [
    remote.ActionError,
    remote.ConnectionLostError,
    remote.RequestTimeoutError,
    remote.ServerError,
    remote.SpecError,
    remote.UsageError,
]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_survives_pickling(kind):
    error = kind("it broke", "UNAVAILABLE", "mend it")
    returned = pickle.loads(pickle.dumps(error))
    assert type(returned) is kind
    assert (returned.message, returned.code, returned.remedy) == (
        "it broke",
        "UNAVAILABLE",
        "mend it",
    )
    assert str(returned) == "UNAVAILABLE: it broke; mend it"


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_can_be_created_from_another_one_as_async_vector_env_does(kind):
    error = kind(kind("it broke", "UNAVAILABLE", "mend it"))
    assert str(error) == "UNAVAILABLE: it broke; mend it"
