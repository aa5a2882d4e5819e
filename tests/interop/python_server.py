# SPDX-License-Identifier: Apache-2.0
"""A server as people write them with the official package's helpers: one agent a world.

Run it, and it prints the address that it listens on; it ends with its standard input. An argument is
the shortest interval of pings without data that it accepts, in milliseconds, in place of gRPC's 300,000.
"""

import concurrent.futures
import sys
import threading

import grpc
import numpy as np
from dm_env_rpc.v1 import (
    dm_env_rpc_pb2,
    dm_env_rpc_pb2_grpc,
    spec_manager,
    tensor_spec_utils,
    tensor_utils,
)
from dm_env_rpc.v1.extensions import properties_pb2
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2

RUNNING, TERMINATED = dm_env_rpc_pb2.RUNNING, dm_env_rpc_pb2.TERMINATED
INTERRUPTED = dm_env_rpc_pb2.INTERRUPTED


class Refused(Exception):
    """A client's mistake."""

    def __init__(self, message, code=code_pb2.INVALID_ARGUMENT):
        super().__init__(message)
        self.code = code


def spec(name, dtype, shape=(), minimum=None, maximum=None):
    made = dm_env_rpc_pb2.TensorSpec(name=name, dtype=dtype, shape=shape)
    if minimum is not None or maximum is not None:
        # Typed, because 1.1.6 with NumPy 2 refuses a Python int as a bound of a narrow dtype.
        np_type = tensor_utils.data_type_to_np_type(dtype)
        tensor_spec_utils.set_bounds(
            made, np.asarray(minimum, np_type), np.asarray(maximum, np_type)
        )
    return made


def legacy_spec():
    """Encodes bounds as in 1.0.x, in fields that are reserved today."""
    made = spec("legacy", dm_env_rpc_pb2.INT8)
    made.min.MergeFromString(b"\x38" + b"\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01")
    made.max.MergeFromString(b"\x38\x05")
    return made


def specs():
    return dm_env_rpc_pb2.ActionObservationSpecs(
        actions={
            1: spec("step", dm_env_rpc_pb2.INT32, (), -1, 1),
            2: spec("push", dm_env_rpc_pb2.FLOAT, (2,), [-1, -2], [1, 2]),
            3: spec("say", dm_env_rpc_pb2.STRING),
            4: legacy_spec(),
        },
        observations={
            5: spec("place", dm_env_rpc_pb2.INT64),
            6: spec("grid", dm_env_rpc_pb2.DOUBLE, (2, 3)),
            7: spec("heard.text", dm_env_rpc_pb2.STRING),
            8: spec("heard.length", dm_env_rpc_pb2.UINT32),
            9: spec("path", dm_env_rpc_pb2.INT32, (-1,)),
            10: spec("reward", dm_env_rpc_pb2.FLOAT),
        },
    )


class World:
    """A walk along a line, for one agent."""

    def __init__(self, settings):
        unknown = set(settings) - {"length", "seed"}
        if unknown:
            raise Refused(f"unknown settings: {', '.join(unknown)}")
        self.length = int(settings.get("length", 10))
        if self.length < 1:
            raise Refused(f"length: expected 1 or more, received {self.length}")
        self.specs = specs()
        self.actions = spec_manager.SpecManager(self.specs.actions)
        self.observations = spec_manager.SpecManager(self.specs.observations)
        self.agent = None
        self.state = TERMINATED
        self.begin()

    def begin(self):
        self.ticks = self.place = 0
        self.text = ""
        self.path = [0]
        self.reward = 0.0

    def step(self, request):
        for uid in request.requested_observations:
            if uid not in self.specs.observations:
                raise Refused(f"unknown observation {uid}")
        if self.state != RUNNING:
            self.begin()
            self.state = RUNNING
        else:
            for uid in request.actions:
                if uid not in self.specs.actions:
                    raise Refused(f"unknown action {uid}")
            try:
                actions = self.actions.unpack(request.actions)
            except ValueError as wrong:
                raise Refused(str(wrong)) from wrong
            self.check_bounds(actions)
            self.place += int(actions.get("step", 0))
            self.text = str(actions.get("say", self.text))
            self.path.append(self.place)
            self.reward = float(np.sum(actions.get("push", 0.0)))
            self.ticks += 1
            if self.ticks >= self.length:
                self.state = TERMINATED
        observed = {
            "place": self.place,
            "grid": np.arange(6, dtype=np.float64).reshape(2, 3) + self.place,
            "heard.text": self.text,
            "heard.length": np.uint32(len(self.text)),
            "path": np.array(self.path, np.int32),
            "reward": self.reward,
        }
        packed = self.observations.pack(observed)
        asked = set(request.requested_observations)
        return dm_env_rpc_pb2.StepResponse(
            state=self.state, observations={uid: packed[uid] for uid in asked}
        )

    def check_bounds(self, actions):
        for name in ("step", "push"):
            if name in actions:
                bounds = tensor_spec_utils.bounds(self.actions.name_to_spec(name))
                if np.any(actions[name] < bounds.min) or np.any(actions[name] > bounds.max):
                    raise Refused(f"{name}: {actions[name]} is out of bounds")


class Service(dm_env_rpc_pb2_grpc.EnvironmentServicer):
    """Answers requests one by one, in order."""

    def __init__(self):
        self._lock = threading.Lock()
        self._worlds = {}
        self._made = 0
        self._note = "nothing yet"

    def Process(self, request_iterator, context):
        session = Session(self)
        try:
            for request in request_iterator:
                yield self.answer(session, request)
        finally:
            session.leave()

    def answer(self, session, request):
        kind = request.WhichOneof("payload")
        handle = getattr(session, f"on_{kind}", None)
        try:
            if handle is None:
                raise Refused(f"cannot handle {kind}")
            with self._lock:
                response = handle(getattr(request, kind))
            return dm_env_rpc_pb2.EnvironmentResponse(**{kind: response})
        except Refused as refused:
            error = status_pb2.Status(code=refused.code, message=str(refused))
            return dm_env_rpc_pb2.EnvironmentResponse(error=error)

    def world(self, name):
        if name not in self._worlds:
            raise Refused(f'unknown world "{name}"', code_pb2.NOT_FOUND)
        return self._worlds[name]


class Session:
    """The state of one connection."""

    def __init__(self, service):
        self._service = service
        self._world = None

    def leave(self):
        if self._world is not None:
            self._world.agent = None
            self._world.state = TERMINATED
            self._world = None

    def joined(self):
        if self._world is None:
            raise Refused("no world has been joined", code_pb2.FAILED_PRECONDITION)
        return self._world

    def on_create_world(self, request):
        settings = {name: tensor_utils.unpack_tensor(one) for name, one in request.settings.items()}
        world = World(settings)
        self._service._made += 1
        name = f"line {self._service._made}"
        self._service._worlds[name] = world
        return dm_env_rpc_pb2.CreateWorldResponse(world_name=name)

    def on_join_world(self, request):
        if self._world is not None:
            raise Refused("a world has been joined already", code_pb2.FAILED_PRECONDITION)
        world = self._service.world(request.world_name)
        if request.settings:
            raise Refused(f"unknown settings: {', '.join(request.settings)}")
        if world.agent is not None:
            raise Refused("the world is full", code_pb2.RESOURCE_EXHAUSTED)
        world.agent = self
        self._world = world
        return dm_env_rpc_pb2.JoinWorldResponse(specs=world.specs)

    def on_step(self, request):
        return self.joined().step(request)

    def on_reset(self, request):
        world = self.joined()
        world.state = INTERRUPTED
        return dm_env_rpc_pb2.ResetResponse(specs=world.specs)

    def on_reset_world(self, request):
        self._service.world(request.world_name).state = INTERRUPTED
        return dm_env_rpc_pb2.ResetWorldResponse()

    def on_leave_world(self, request):
        self.leave()
        return dm_env_rpc_pb2.LeaveWorldResponse()

    def on_destroy_world(self, request):
        if self._service.world(request.world_name).agent is not None:
            raise Refused("an agent has joined it", code_pb2.FAILED_PRECONDITION)
        del self._service._worlds[request.world_name]
        return dm_env_rpc_pb2.DestroyWorldResponse()

    def on_extension(self, packed):
        request = properties_pb2.PropertyRequest()
        if not packed.Unpack(request):
            raise Refused(f"unknown extension {packed.type_url}", code_pb2.UNIMPLEMENTED)
        kind = request.WhichOneof("payload")
        answer = getattr(self, f"{kind}")(getattr(request, kind))
        response = any_pb2.Any()
        response.Pack(properties_pb2.PropertyResponse(**{kind: answer}))
        return response

    def read_property(self, request):
        if request.key == "worlds":
            value = tensor_utils.pack_tensor(np.int32(len(self._service._worlds)))
        elif request.key == "note":
            value = tensor_utils.pack_tensor(self._service._note)
        else:
            raise Refused(f"no property {request.key}", code_pb2.NOT_FOUND)
        return properties_pb2.ReadPropertyResponse(value=value)

    def write_property(self, request):
        if request.key == "worlds":
            raise Refused("worlds is read only", code_pb2.PERMISSION_DENIED)
        if request.key != "note":
            raise Refused(f"no property {request.key}", code_pb2.NOT_FOUND)
        value = tensor_utils.unpack_tensor(request.value)
        if not isinstance(value, str):
            raise Refused("note: expected a string")
        self._service._note = str(value)
        return properties_pb2.WritePropertyResponse()

    def list_property(self, request):
        if request.key in ("worlds", "note"):
            raise Refused(f"{request.key} has no list", code_pb2.PERMISSION_DENIED)
        if request.key:
            raise Refused(f"no property {request.key}", code_pb2.NOT_FOUND)
        return properties_pb2.ListPropertyResponse(
            values=[
                properties_pb2.PropertySpec(
                    spec=spec("worlds", dm_env_rpc_pb2.INT32), is_readable=True
                ),
                properties_pb2.PropertySpec(
                    spec=spec("note", dm_env_rpc_pb2.STRING),
                    is_readable=True,
                    is_writable=True,
                    description="Whatever somebody left here",
                ),
            ]
        )


def main():
    options = [
        ("grpc.http2.min_ping_interval_without_data_ms", int(interval))
        for interval in sys.argv[1:]
    ]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=64), options=options)
    dm_env_rpc_pb2_grpc.add_EnvironmentServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()
