// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import { connect as connectTcp, createServer as createTcpServer } from "node:net";
import { framesOf } from "../loads/frames.ts";
import { pacedAgent } from "./paced.ts";
import type { Peer } from "./peer.ts";
import { listenOn, messageCounter, repeated } from "./sockets.ts";

const windowBytes = 4 * 1024 * 1024;

/**
 * The bytes of a step echoed over bare node:http2 with windows of 4 MiB: no messages, one write per
 * chunk.
 */
export const http2Echo: Peer = {
  async serve(load) {
    const { request, response } = framesOf(load);
    const answers = repeated(response);
    const server = createHttp2Server({ settings: { initialWindowSize: windowBytes } });
    server.on("session", (session) => session.setLocalWindowSize(windowBytes));
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      const count = messageCounter(request.length);
      stream.on("data", (chunk: Buffer) => {
        const messages = count(chunk.length);
        if (messages > 0) {
          stream.write(answers(messages));
        }
      });
      stream.on("end", () => stream.end());
      stream.on("error", () => {});
    });
    return listenOn(server);
  },

  async connect(load, port) {
    const { request, response } = framesOf(load);
    const questions = repeated(request);
    const session = connectHttp2(`http://127.0.0.1:${port}`, {
      settings: { initialWindowSize: windowBytes, enablePush: false },
    });
    await once(session, "connect");
    session.setLocalWindowSize(windowBytes);
    const stream = session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/grpc",
      te: "trailers",
    });
    const count = messageCounter(response.length);
    const agent = pacedAgent(
      (messages) => stream.write(questions(messages)),
      async () => {
        stream.end();
        session.close();
      },
    );
    stream.on("data", (chunk: Buffer) => {
      const messages = count(chunk.length);
      if (messages > 0) {
        agent.answered(messages);
      }
    });
    stream.on("error", agent.failed);
    return agent;
  },
};

/** The bytes of a step echoed over TCP, without HTTP/2. */
export const tcpEcho: Peer = {
  async serve(load) {
    const { request, response } = framesOf(load);
    const answers = repeated(response);
    return listenOn(
      createTcpServer({ noDelay: true }, (socket) => {
        const count = messageCounter(request.length);
        socket.on("data", (chunk: Buffer) => {
          const messages = count(chunk.length);
          if (messages > 0) {
            socket.write(answers(messages));
          }
        });
        socket.on("error", () => {});
      }),
    );
  },

  async connect(load, port) {
    const { request, response } = framesOf(load);
    const questions = repeated(request);
    const socket = connectTcp({ host: "127.0.0.1", port, noDelay: true });
    await once(socket, "connect");
    const count = messageCounter(response.length);
    const agent = pacedAgent(
      (messages) => socket.write(questions(messages)),
      async () => {
        socket.end();
      },
    );
    socket.on("data", (chunk: Buffer) => {
      const messages = count(chunk.length);
      if (messages > 0) {
        agent.answered(messages);
      }
    });
    socket.on("error", agent.failed);
    return agent;
  },
};
