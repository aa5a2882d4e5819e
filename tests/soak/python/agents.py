# SPDX-License-Identifier: Apache-2.0
"""Agents with the official package and plain grpcio, for the soak of the matchmaker.

They play one sequence of each match, until standard input receives a line or closes, and print the
events of tests/soak/src/matchmaking/events.ts.
"""

import argparse
import json
import sys
import threading
import time
import uuid

import grpc
from dm_env_rpc.v1 import connection, dm_env_rpc_pb2, tensor_utils
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "matchmaker.v1.FrontendService"
WAITING, MATCHED, FAILED = 1, 2, 7
PATIENCE_S = 7
STEP_S = 0.025
RETRY_S = 0.25
CALL_S = 5
# A suspended matchmaker answers no ping.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

ending = threading.Event()
printing = threading.Lock()


def tell(agent, turn, what, **more):
    event = {"at": time.time() * 1000, "agent": agent, "turn": turn, "is": what, **more}
    with printing:
        print(json.dumps(event), flush=True)


class Matchmakers:
    """The matchmakers' service for agents, without generated code."""

    def __init__(self, descriptors, addresses, token):
        pool = descriptor_pool.DescriptorPool()
        with open(descriptors, "rb") as file:
            for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
                pool.Add(proto)
        self._methods = pool.FindServiceByName(SERVICE).methods_by_name
        self._metadata = (("authorization", f"Bearer {token}"),)
        hosts = [address.removeprefix("http://") for address in addresses]
        self._channels = [grpc.insecure_channel(host, options=KEEPALIVE) for host in hosts]
        self._calls = {
            name: [self._call(name, c) for c in self._channels] for name in self._methods
        }

    def _call(self, name, channel):
        method = self._methods[name]
        request = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        kind = channel.unary_stream if name == "WatchTicket" else channel.unary_unary
        call = kind(
            f"/{SERVICE}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return lambda timeout=None, **fields: call(
            request(**fields), metadata=self._metadata, timeout=timeout
        )

    def call(self, name, at, **more):
        return self._calls[name][at % len(self._channels)](**more)


class Agent:
    """Plays turn after turn."""

    def __init__(self, name, at, matchmakers):
        self._name = name
        self._at = at
        self._matchmakers = matchmakers

    def live(self):
        turn = 1
        while not ending.is_set():
            tell(self._name, turn, "asked")
            self._take_turn(turn)
            turn += 1

    def _take_turn(self, turn):
        ticket = {"ticket_id": str(uuid.uuid4()), "ticket_secret": str(uuid.uuid4())}
        playing = None
        watch = None
        over = threading.Event()

        def play(assignment):
            try:
                self._play(turn, ticket, assignment)
            finally:
                over.set()
                watch.cancel()

        while not over.is_set():
            if ending.is_set() and playing is None:
                self._try("CancelTicket", timeout=CALL_S, **ticket)
                tell(self._name, turn, "given-up")
                return
            if playing is None and not self._try("CreateTicket", timeout=CALL_S, **ticket):
                continue
            watch = self._matchmakers.call("WatchTicket", self._at, **ticket)
            end_watch = threading.Timer(0, lambda call=watch: ending.wait() and call.cancel())
            end_watch.daemon = True
            end_watch.start()
            try:
                for update in watch:
                    assignment = update.ticket.assignment
                    state = update.ticket.state
                    if playing is None and assignment.world_name:
                        mine = assignment
                        tell(self._name, turn, "assigned", address=assignment.address)
                        playing = threading.Thread(target=play, args=(assignment,), daemon=True)
                        playing.start()
                    elif playing is not None and (
                        state in (WAITING, MATCHED)
                        or (assignment.world_name and assignment.join_token != mine.join_token)
                    ):
                        if not over.is_set():
                            tell(self._name, turn, "moved", address=mine.address, why=str(state))
                    elif playing is None and state == FAILED:
                        tell(self._name, turn, "failed", why=update.ticket.error.message)
                        return
            except grpc.RpcError:
                self._at += 1
            if playing is not None:
                break
            time.sleep(RETRY_S)
        if playing is not None:
            playing.join()

    def _try(self, name, **more):
        try:
            self._matchmakers.call(name, self._at, **more)
            return True
        except grpc.RpcError:
            self._at += 1
            time.sleep(RETRY_S)
            return False

    def _play(self, turn, ticket, assignment):
        address = assignment.address
        is_late = threading.Event()
        try:
            with grpc.insecure_channel(
                address.removeprefix("http://"), options=KEEPALIVE
            ) as channel:
                bearer = (("authorization", f"Bearer {assignment.join_token}"),)

                def leave():
                    is_late.set()
                    channel.close()

                late = threading.Timer(PATIENCE_S, leave)
                late.start()
                try:
                    connected = connection.Connection(channel, metadata=bearer)
                    settings = {"ticket": tensor_utils.pack_tensor(ticket["ticket_id"])}
                    specs = connected.send(
                        dm_env_rpc_pb2.JoinWorldRequest(
                            world_name=assignment.world_name, settings=settings
                        )
                    ).specs
                    tick = next(uid for uid, spec in specs.observations.items())
                    move = next(uid for uid, spec in specs.actions.items())
                    first = dm_env_rpc_pb2.StepRequest(requested_observations=[tick])
                    connected.send(first)
                finally:
                    late.cancel()
                tell(self._name, turn, "began", address=address)
                action = {move: tensor_utils.pack_tensor(1, dtype=dm_env_rpc_pb2.INT32)}
                while True:
                    time.sleep(STEP_S)
                    request = dm_env_rpc_pb2.StepRequest(
                        requested_observations=[tick], actions=action
                    )
                    if connected.send(request).state != dm_env_rpc_pb2.RUNNING:
                        break
                connected.close()
            tell(self._name, turn, "finished", address=address)
        except Exception as error:
            fate = "lost"
            if is_late.is_set():
                fate = "given-up" if ending.is_set() else "alone"
            tell(self._name, turn, fate, address=address, why=repr(error))
            self._try("CancelTicket", timeout=CALL_S, **ticket)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--matchmaker", action="append", required=True)
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--name", default="python")
    parser.add_argument("--token", default="")
    parser.add_argument("--descriptors", required=True)
    args = parser.parse_args()
    matchmakers = Matchmakers(args.descriptors, args.matchmaker, args.token)
    agents = [Agent(f"{args.name}-{i}", i, matchmakers) for i in range(args.agents)]
    lives = [threading.Thread(target=agent.live) for agent in agents]
    for life in lives:
        life.start()
    sys.stdin.readline()
    ending.set()
    for life in lives:
        life.join()


main()
