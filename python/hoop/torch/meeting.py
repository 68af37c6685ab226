# SPDX-License-Identifier: MIT
"""How the ranks of a group meet: through the group's own store.

Rank 0 starts the rendezvous server of libhoop, once a process, and invites the others with its address, the secret and
a new job name, which the store carries. The server takes the network that leads to the store's host, because the user's
own address works there; with HOOP_RENDEZVOUS it listens there, or, if HOOP_SECRET_FILE is set, too, is the
hoop-rendezvous there. The secret is in a file that all ranks have, HOOP_SECRET_FILE; else see secret.py: a rank that
lacks the user's own gets the job's key from the store, and who can read the store meanwhile can join. A store may serve
one group after the other: each has its own part of it, named after the job.
"""

from __future__ import annotations

import ctypes
import hmac
import logging
import os
import secrets
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Optional

from torch.distributed import DistBackendError, DistStoreError, PrefixStore

from .._library import SERVER_TEXT, lib
from ..errors import check
from ..work import block
from .errors import failure, store_failure
from .invitation import Host, ask
from .secret import NO_PROOF, Secret, own, own_file, proof, warn_once
from .work import milliseconds

_LONGEST = 86400000
_DOES = "meet the other ranks through the group's store"
_SORRY = 5  # seconds in which rank 0 tells the others that it cannot
_ALL_HAVE = "all ranks have the file"
_GIVEN, _OWN = "-", "~"  # in the place of a key: HOOP_SECRET_FILE has the secret; the user's own file has it


class _Config:
    """hoop_config, freed at the end of the block."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def __enter__(self) -> int:
        self._handle = lib.hoop_config_new()
        for key, value in self._settings.items():
            check(lib.hoop_config_set(self._handle, key.encode(), value.encode()))
        return int(self._handle)

    def __exit__(self, *why: object) -> None:
        lib.hoop_config_free(self._handle)


def _network(store: Any) -> dict[str, str]:
    """The settings that choose the network: the store's host, which a store of files lacks, and gloo's own choice."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    host, gloo = getattr(store, "host", None), os.environ.get("GLOO_SOCKET_IFNAME")
    chosen = {"join_host": host} if isinstance(host, str) and host else {}
    if gloo and os.environ.get("HOOP_TORCH_REPLACE") == "gloo" and not os.environ.get("HOOP_SOCKET_IFNAME"):
        chosen["socket_ifname"] = f"={gloo}"
    return chosen


def _rendezvous() -> str:
    """HOOP_RENDEZVOUS, but not that of hooprun, whose secret is for one job only."""
    return "" if os.environ.get("HOOP_SECRET_FD") else os.environ.get("HOOP_RENDEZVOUS", "")


class _Server:
    """This process's server: started when a group first needs it, it ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: Optional[int] = None
        self._own: Optional[Secret] = None  # the user's own secret, if that is the server's
        self._secret: Optional[Secret] = None  # the server's; None: HOOP_SECRET_FILE has it
        self._pid = 0

    def _start(self, network: dict[str, str]) -> None:
        settings = {"rendezvous": _rendezvous(), "secret_fd": "-1"} | network
        self._own = self._secret = None
        if not os.environ.get("HOOP_SECRET_FILE"):
            self._own = own()
            self._secret = self._own or Secret()
            settings["secret"] = self._secret.text()
        handle = ctypes.c_void_p()
        with _Config(settings) as config:
            check(lib.hoop_server_start(ctypes.byref(handle), config))
        self._handle, self._pid = handle.value, os.getpid()

    def address(self, network: dict[str, str]) -> str:
        with self._lock:
            if not self._handle or self._pid != os.getpid():
                self._start(network)
        address = ctypes.create_string_buffer(SERVER_TEXT)
        check(lib.hoop_server_address(self._handle, address, SERVER_TEXT))
        return address.value.decode()

    def word(self, job: str, number: str, shown: str, store: str) -> str:
        """What the rank gets that has asked with this number and proof. store: the host of the group's store."""
        if not self._secret:
            return _GIVEN
        if self._own and hmac.compare_digest(shown, self._own.proof(number)):
            return _OWN
        warn_once(store)
        return self._secret.key_of(job)

    def word_of_all(self, number: str) -> str:
        """What any rank of any job gets. The user's own secret stays in its file: this shows who has the same."""
        if not self._secret:
            return _GIVEN
        return f"{_OWN}{self._own.proof(number)}" if self._own else self._secret.text()


_server = _Server()


def _read(part: Any, key: str, limit: float) -> str:
    """What another rank has put there, or will. The wait inside torch's stores would keep Ctrl-C waiting as well."""
    deadline, pause = time.monotonic() + limit, 0.001
    while not part.check([key]):
        if time.monotonic() > deadline:
            part.wait([key], timedelta(milliseconds=1))  # raises torch's error
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return bytes(part.get(key)).decode()


def _lacks_file() -> str:
    """Why this process cannot read the secret from HOOP_SECRET_FILE; "" if it can."""
    path = os.environ.get("HOOP_SECRET_FILE")
    if not path:
        return "HOOP_SECRET_FILE is not set there"
    return "" if os.access(path, os.R_OK) else f"HOOP_SECRET_FILE={path} cannot be read there"


def _limit(settings: dict[str, str]) -> float:
    """The seconds of a start."""
    return int(settings["bootstrap_timeout_ms"]) / 1000


def _check_files(part: Any, settings: dict[str, str]) -> None:
    """All ranks must have the file of the secret if rank 0 has it; else all of them get ValueError at once."""
    lacks = _lacks_file()
    if lacks:
        part.set("files", f"rank 0 takes the group's secret from HOOP_SECRET_FILE, but rank {settings['rank']} cannot: {lacks}")
    elif part.add("files-read", 1) == int(settings["size"]):
        part.set("files", _ALL_HAVE)
    verdict = _read(part, "files", _limit(settings))
    if verdict != _ALL_HAVE:
        raise ValueError(f"{verdict}; set it on all ranks of the group, or on none")


_told: list[int] = []  # the process that has


def _tell_once(settings: dict[str, str]) -> None:
    """One line a process, at its first group, by which a user sees that hoop is in use."""
    if _told == [os.getpid()]:
        return
    _told[:] = [os.getpid()]
    other = " and gloo (HOOP_TORCH_REPLACE)" if os.environ.get("HOOP_TORCH_REPLACE") == "gloo" else ""
    logging.getLogger("hoop").info(
        f"hoop {lib.hoop_version().decode()} is the backend hoop{other} of torch.distributed: "
        f"rank {settings['rank']} of {settings['size']}, which met at {settings['rendezvous']}"
    )


def _create(settings: dict[str, str], address: str, word: str) -> int:
    """A communicator. word: a secret or key, or who has it."""
    settings["rendezvous"] = address
    if word == _OWN:
        settings["secret_file"] = own_file()
    elif word != _GIVEN:
        settings["secret"] = word
    handle = ctypes.c_void_p()
    with _Config(settings) as config:
        code = block(lib.hoop_comm_create, ctypes.byref(handle), config)
    if code:
        raise failure(code)
    assert handle.value
    _tell_once(settings)
    return handle.value


def _accept(part: Any, settings: dict[str, str], invitation: str) -> tuple[int, Any]:
    address, word = invitation.split(" ", 1)
    if word == _GIVEN:
        _check_files(part, settings)
    return _create(settings, address, word), part


def _through_store(rank: int, use: Callable[[], Any]) -> Any:
    """What `use` returns; what goes wrong in it is the store's."""
    try:
        return use()
    except TimeoutError as why:
        raise DistStoreError(str(why)) from None
    except RuntimeError as why:
        raise store_failure(rank, _DOES, why) from None


def _invited(meeting: Any, rank: int, size: int, limit: float) -> tuple[str, str]:
    """The job and where it meets, from rank 0."""
    job, invitation = _through_store(rank, lambda: ask(meeting, rank, size, proof, limit))
    if invitation.startswith("! "):
        raise RuntimeError(f"rank 0 could not start the rendezvous server: {invitation[2:]}")
    return job, invitation


def _elsewhere() -> bool:
    """The server is a hoop-rendezvous, which runs already."""
    return bool(_rendezvous() and os.environ.get("HOOP_SECRET_FILE"))


def _opened(meeting: Any, job: str, here: dict[str, str], size: int) -> tuple[Host, str]:
    """Rank 0 invites the others, and itself. They learn it, too, if it cannot."""
    elsewhere = _elsewhere()
    try:
        address = _rendezvous() if elsewhere else _server.address(here)
    except Exception as why:
        sorry = "! " + str(why).replace("\n", " ")
        with Host(meeting, size, job, lambda number, shown: sorry) as host:
            host.wait(_SORRY)
        raise

    def text(number: str, shown: str, store: str = here.get("join_host", "")) -> str:
        return f"{address} {_GIVEN if elsewhere else _server.word(job, number, shown, store)}"

    opened = Host(meeting, size, job, text)
    _through_store(0, opened.look)
    return opened, text("", NO_PROOF, "")


def _settings(
    store: Any, rank: int, size: int, start: timedelta, limit: timedelta, chosen: Optional[dict[str, str]]
) -> dict[str, str]:
    starts = milliseconds(start)
    settings = {"rank": str(rank), "size": str(size), "secret_fd": "-1"} | _network(store) | (chosen or {})
    settings["op_timeout_ms"] = str(max(milliseconds(limit), 0))
    settings["bootstrap_timeout_ms"] = str(starts if starts > 0 else _LONGEST)
    return settings


def meet(
    store: Any, rank: int, size: int, limit: timedelta, chosen: Optional[dict[str, str]] = None
) -> tuple[int, Any]:
    """A communicator of the group's ranks, and their own part of the store; all of them call it.

    limit: of this start, and of each operation. chosen: the group's own settings.
    """
    meeting, settings = PrefixStore(f"hoop/{size}", store), _settings(store, rank, size, limit, limit, chosen)
    if rank:
        settings["job"], invitation = _invited(meeting, rank, size, _limit(settings))
        return _accept(PrefixStore(settings["job"], meeting), settings, invitation)
    settings["job"] = f"torch-{secrets.token_hex(8)}"
    host, invitation = _opened(meeting, settings["job"], _network(store), size)
    with host:
        return _accept(PrefixStore(settings["job"], meeting), settings, invitation)


# --- by handles, without a store -----------------------------------------------------------------------------------


def offer(store: Any, number: str) -> str:
    """WORD:ADDRESS, by which the ranks of any job meet at this process's server; see meet_at(). store: see _network()."""
    if _elsewhere():
        return f"{_GIVEN}:{_rendezvous()}"
    address = _server.address(_network(store))
    return f"{_server.word_of_all(number)}:{address}"


def _checked(word: str, number: str) -> str:
    """The word of an offer as _create() takes it. ValueError: this process has not got that secret."""
    lacks = _lacks_file() if word == _GIVEN else ""
    if lacks:
        raise ValueError(f"the handles want the secret from HOOP_SECRET_FILE, but this process cannot: {lacks}")
    if not word.startswith(_OWN):
        return word
    if not hmac.compare_digest(proof(number), word[1:]):
        raise ValueError(
            "the first handle wants its user's own secret, and this process has none or another one: copy "
            "~/.config/hoop/secret to all hosts, or remove it there"
        )
    return _OWN


def meet_at(
    offered: str, number: str, job: str, store: Any, place: tuple[int, int], start: timedelta, limit: timedelta,
    chosen: Optional[dict[str, str]],
) -> int:
    """A communicator of the ranks that come with this offer(number) and job. place: (rank, size). start: its limit."""
    word, address = offered.split(":", 1)
    settings = _settings(store, *place, start, limit, chosen) | {"job": job}
    try:
        return _create(settings, address, _checked(word, number))
    except DistBackendError as why:
        if address in str(why) and not _elsewhere():
            why.args = (f"{why}; that server is in the process of the first handle: has it ended?",)
        raise
