"""How clients begin and end."""

import time

from .connection import SCENARIOS, Connection, scenario


def sampler(c: Connection) -> None:
    c.sampling()


for name in (
    "startup_key_argument",
    "startup_key_environment",
    "startup_key_stored",
    "startup_key_exchanged",
    "startup_key_unknown",
    "startup_key_malformed",
    "startup_key_missing",
    "startup_command",
    "startup_command_exchanged",
    "startup_command_enforced",
    "startup_token",
    "startup_token_enforced",
    "startup_session_options",
    "startup_session_from_environment",
    "startup_access_headers",
    "startup_no_dynamic_config",
    "startup_config_500",
    "startup_session_500",
):
    SCENARIOS[name] = sampler


@scenario
def capabilities(c: Connection) -> None:
    c.service.get_server_capabilities()


@scenario
def whoami(c: Connection) -> None:
    c.rest().whoami().result()


@scenario
def close_success(c: Connection) -> None:
    c.sampling()
    c.service.close("success", detail="all done").result()


@scenario
def close_errored(c: Connection) -> None:
    c.sampling()
    c.service.close("errored", detail="out of memory").result()


@scenario
def close_interrupted(c: Connection) -> None:
    c.sampling()
    c.service.close("interrupted").result()


@scenario
def close_without_session(c: Connection) -> None:
    c.service.close("success").result()


@scenario
def close_500(c: Connection) -> None:
    c.sampling()


@scenario
def heartbeats(c: Connection) -> None:
    c.sampling()
    time.sleep(22)


@scenario
def heartbeat_410(c: Connection) -> None:
    c.sampling()
    time.sleep(22)
