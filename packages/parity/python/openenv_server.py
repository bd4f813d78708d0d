"""A number to guess behind an OpenEnv server, and episodes with its own client.

    python -m openenv_server serve           prints its port, and serves until it is ended
    python -m openenv_server play URL JOB    plays the episodes of a job file; prints what the client saw as JSON
"""

import asyncio
import json
import socket
import sys
from typing import Optional

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    guess: int


class Hint(Observation):
    hint: str


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()
        self._target = 0

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_):
        self._target = 0 if seed is None else seed
        self._state = State(episode_id=episode_id, step_count=0)
        return Hint(hint="guess")

    def step(self, action, timeout_s: Optional[float] = None, **_):
        self._state.step_count += 1
        if action.guess == 13:
            raise ValueError("unlucky")
        if action.guess == self._target:
            return Hint(hint="right", reward=True, done=True)
        return Hint(hint="higher" if action.guess < self._target else "lower", reward=-0.125)

    @property
    def state(self):
        return self._state


def serve():
    import uvicorn
    from openenv.core.env_server.http_server import create_fastapi_app

    app = create_fastapi_app(Guessing, Guess, Hint, max_concurrent_envs=2)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[sock])


async def play(url, path):
    from openenv.core.generic_client import GenericEnvClient

    seen = []
    for episode in json.load(open(path)):
        async with GenericEnvClient(base_url=url) as client:
            steps = []
            for message in episode:
                try:
                    if "reset" in message:
                        result = await client.reset(**message["reset"])
                    else:
                        result = await client.step(message["step"])
                    steps.append([result.observation, float(result.reward or 0), result.done])
                except RuntimeError as error:
                    steps.append(str(error).split("(code: ")[-1].rstrip(")"))
            seen.append({"steps": steps, "state": await client.state()})
    print(json.dumps(seen))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        asyncio.run(play(*sys.argv[2:]))
