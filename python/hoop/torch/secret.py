# SPDX-License-Identifier: MIT
"""The secret of this process's server, and what the ranks of a group get of it through the group's store.

It is the user's own, or a new one. A rank that has the user's own, too, shows it by a keyed hash (HMAC, RFC 2104) of a
number that it asks with, and takes it from its file. Any other rank gets the key of the group's job, which fits no other
job: hoop_protocol(7) says how it follows from the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import mmap
import os
import re
import socket
import stat
from ctypes import c_char
from typing import Any

from .._library import SECRET_TEXT, lib
from ..errors import check

NO_PROOF = "-"
_DIGITS = re.compile(rb"[0-9a-f]{64}\n?")


def own_file() -> str:
    """The path of the user's own secret, where libhoop's launchers look for it, too; "": there is none."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not folder.startswith("/"):
        folder = os.path.join(os.environ.get("HOME", ""), ".config")
    path = os.path.join(folder, "hoop", "secret")
    return path if path.startswith("/") and _is_private(path) else ""


def _is_private(path: str) -> bool:
    """A file of this user's that nobody else may read; libhoop takes no other."""
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077


class Secret:
    """In memory of its own, which a core file does not have, and which goes back to the kernel. path "": a new one."""

    def __init__(self, path: str = "") -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        if hasattr(mmap, "MADV_DONTDUMP"):
            self._page.madvise(mmap.MADV_DONTDUMP)
        self._text: Any = (c_char * SECRET_TEXT).from_buffer(self._page)
        if path:
            with open(path, "rb", buffering=0) as file:
                file.readinto(self._page)
        else:
            check(lib.hoop_secret_new(self._text, SECRET_TEXT))

    def text(self) -> str:
        return str(self._text.value[:64].decode())

    def _hash(self, key: bytes, what: bytes) -> bytes:
        return hmac.new(key, what, hashlib.sha256).digest()

    def proof(self, number: str) -> str:
        return self._hash(bytes.fromhex(self.text()), b"hoop torch " + number.encode()).hex()

    def key_of(self, job: str) -> str:
        """The key of this job, as libhoop reads it; HKDF (RFC 5869)."""
        which = hashlib.sha256(job.encode()).digest()[:16]
        extracted = self._hash(b"hoop-v1", bytes.fromhex(self.text()))
        return f"hoop-job {which.hex()} {self._hash(extracted, b'hoop1 job' + which + bytes([1])).hex()}"


def own() -> Secret | None:
    """The user's own secret. None: there is none, or it is not a secret but the key of one job."""
    path = own_file()
    try:
        secret = Secret(path) if path else None
    except OSError:
        return None
    return secret if secret and _DIGITS.fullmatch(secret._page[: SECRET_TEXT].rstrip(b"\0")) else None


def proof(number: str) -> str:
    """What shows that this process has the user's own secret."""
    secret = own()
    return secret.proof(number) if secret else NO_PROOF


def _is_loopback(host: str) -> bool:
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses)


_warned: list[int] = []  # the process that has


def warn_once(host: str) -> None:
    """One line a process, where a key goes into a store on the network. host: the store's; "": it has none."""
    if not host or _warned == [os.getpid()] or _is_loopback(host):
        return
    _warned[:] = [os.getpid()]
    logging.getLogger("hoop").warning(
        f"rank 0 puts the key of a ring into PyTorch's store at {host}, and any host that reaches the store can read it "
        'meanwhile; make a secret with "hoop-rendezvous --new-secret" and copy ~/.config/hoop/secret to all hosts, and '
        "no key goes there"
    )
