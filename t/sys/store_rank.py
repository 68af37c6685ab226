# SPDX-License-Identifier: MIT
"""A rank that meets the others as a PyTorch group does, without PyTorch: a folder is the store, and torch a stand-in.

store_rank.py FOLDER HOST RANK SIZE      HOST: where the store is; "-": nowhere, as for a store of files
"""

import os
import sys
import time
from datetime import timedelta
from types import ModuleType
from typing import Any


class _Module(ModuleType):
    """Has every name: a class whose objects have every method. They do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__getattr__": lambda _, method: lambda *arguments: None})


for _name in ("torch", "torch.distributed", "torch.futures", "torch._C", "torch._C._distributed_c10d"):
    sys.modules[_name] = _Module(_name)
sys.modules["torch"].__version__ = "2.15"  # type: ignore[attr-defined]


class Store:
    def __init__(self, folder: str, host: str) -> None:
        self.folder = folder
        if host != "-":
            self.host = host

    def set(self, key: str, value: str) -> None:
        path = os.path.join(self.folder, key.replace("/", "_"))
        with open(f"{path}.{os.getpid()}", "w") as file:
            file.write(value)
        os.rename(file.name, path)

    def get(self, key: str) -> bytes:
        path = os.path.join(self.folder, key.replace("/", "_"))
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as file:
            return file.read()

    def check(self, keys: list[str]) -> bool:
        return all(os.path.exists(os.path.join(self.folder, key.replace("/", "_"))) for key in keys)

    def add(self, key: str, amount: int) -> int:
        count = 1
        while True:
            try:
                os.mkdir(os.path.join(self.folder, f"{key.replace('/', '_')}.{count}"))
                return count
            except FileExistsError:
                count += 1


class PrefixStore:
    timeout = timedelta(seconds=60)

    def __init__(self, prefix: str, store: Any) -> None:
        self.prefix, self.underlying_store = prefix, store

    def set(self, key: str, value: str) -> None:
        self.underlying_store.set(f"{self.prefix}/{key}", value)

    def get(self, key: str) -> bytes:
        return self.underlying_store.get(f"{self.prefix}/{key}")

    def check(self, keys: list[str]) -> bool:
        return bool(self.underlying_store.check([f"{self.prefix}/{key}" for key in keys]))

    def wait(self, keys: list[str], limit: timedelta) -> None:
        if not self.check(keys):
            raise RuntimeError(f"no {keys} in the store")

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(f"{self.prefix}/{key}", amount)


sys.modules["torch"]._C = type("_C", (), {"Future": type("Future", (), {"wait": None})})  # type: ignore[attr-defined]
sys.modules["torch.distributed"].PrefixStore = PrefixStore  # type: ignore[attr-defined]

from hoop._library import lib  # noqa: E402
from hoop.torch.meeting import meet  # noqa: E402

folder, host, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
limit = timedelta(milliseconds=int(os.environ.get("HOOP_BOOTSTRAP_TIMEOUT_MS", "30000")))
comm, _ = meet(PrefixStore("group", Store(folder, host)), rank, size, limit)
code = lib.hoop_barrier(comm)
lib.hoop_comm_destroy(comm)
print(f"rank {rank} of {size}: {'right' if code == 0 else code}")
