"""How clients begin and end."""

from .connection import Connection, scenario


@scenario
def startup_key_argument(c: Connection) -> None:
    c.sampling()
