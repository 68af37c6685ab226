# SPDX-License-Identifier: MIT
"""A rendezvous server inside this process, for programs that bring their ranks together themselves."""

import ctypes
from types import TracebackType
from typing import Any, Optional

from ._library import SECRET_TEXT, SERVER_TEXT, lib
from .errors import check
from .handle import Handle
from .settings import config_of


def new_secret() -> str:
    """64 random hexadecimal digits, for the setting `secret` of a server and its ranks.

    Pass it to the ranks in a way that others cannot read, and make a new one for each start.
    """
    text = ctypes.create_string_buffer(SECRET_TEXT)
    check(lib.hoop_secret_new(text, SECRET_TEXT))
    return text.value.decode()


class Server(Handle):
    """A rendezvous server on a thread of the library. The process that serves need not be a rank.

        secret = hoop.new_secret()
        with hoop.Server(secret=secret) as server:
            ...  # each rank: hoop.Comm(rank=..., size=..., rendezvous=server.address, secret=secret)

    Settings: secret, rendezvous ("host:port" to listen on; port 0: any), socket_ifname, security; see hoop_env(7). A
    process has one server; a second Server with the same settings is the same one, and it ends with the last stop().
    HoopError if it cannot listen, or if the process has a server with other settings.
    """

    def __init__(self, **settings: Any) -> None:
        handle = ctypes.c_void_p()
        with config_of(settings) as config:
            check(lib.hoop_server_start(ctypes.byref(handle), config))
        self._handle = handle.value

    @property
    def address(self) -> str:
        """What the ranks set as `rendezvous`: "host:port"."""
        text = ctypes.create_string_buffer(SERVER_TEXT)
        check(lib.hoop_server_address(self._handle, text, SERVER_TEXT))
        return text.value.decode()

    def stop(self) -> None:
        """Ends the server. Ranks that are joining get an error; rings that are up go on. Twice is fine."""
        handle, self._handle = self._handle, None
        check(lib.hoop_server_stop(handle))

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        where: Optional[TracebackType],
    ) -> None:
        self.stop()
