# SPDX-License-Identifier: Apache-2.0
"""A match found with plain grpcio, by reflection, and its seat taken by the official client."""

import contextlib
import json

import grpc
import pytest
from dm_env_rpc.v1 import connection, error
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from joining import connect, join_world, leave_world
from processes import serving

SERVICE = "matchmaker.v1.FrontendService"
ASSIGNED = 3
ALONE = {
    "name": "alone",
    "pools": [{"name": "all"}],
    "matchFunction": {"byCount": {"count": 1}},
    "worldType": "gridworld",
}


@pytest.fixture(scope="module")
def matchmaker(tmp_path_factory):
    profiles = tmp_path_factory.mktemp("matchmaking") / "profiles.json"
    profiles.write_text(json.dumps([ALONE]))
    with serving("matchmaker-server", "--profiles", str(profiles)) as address:
        with serving("gridworld-server", "--matchmaker", address):
            yield address


def find_match(address):
    """Returns the assignment of a new ticket."""
    with grpc.insecure_channel(address) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        methods = pool.FindServiceByName(SERVICE).methods_by_name

        def caller(name, kind):
            method = methods[name]
            request = message_factory.GetMessageClass(method.input_type)
            response = message_factory.GetMessageClass(method.output_type)
            call = kind(
                f"/{SERVICE}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            return lambda **fields: call(request(**fields))

        created = caller("CreateTicket", channel.unary_unary)()
        watch = caller("WatchTicket", channel.unary_stream)(ticket_id=created.ticket.id)
        assignment = next(
            update.ticket.assignment for update in watch if update.ticket.state == ASSIGNED
        )
        watch.cancel()
        return assignment


def host_and_port(assignment):
    return assignment.address.removeprefix("http://")


def test_the_official_client_sends_its_join_token_as_metadata(matchmaker):
    assignment = find_match(matchmaker)
    with grpc.secure_channel(
        host_and_port(assignment), grpc.local_channel_credentials()
    ) as channel:
        bearer = (("authorization", f"Bearer {assignment.join_token}"),)
        with contextlib.closing(connection.Connection(channel, metadata=bearer)) as connected:
            specs = join_world(connected, assignment.world_name, {})
            assert "move" in {spec.name for spec in specs.actions.values()}
            leave_world(connected)


def test_the_official_client_sends_its_join_token_as_a_join_setting(matchmaker):
    assignment = find_match(matchmaker)
    with connect(host_and_port(assignment)) as connected:
        with pytest.raises(error.DmEnvRpcError, match="expected a join token, received none"):
            join_world(connected, assignment.world_name, {})
        settings = {"join_token": assignment.join_token}
        assert join_world(connected, assignment.world_name, settings).actions
        leave_world(connected)
