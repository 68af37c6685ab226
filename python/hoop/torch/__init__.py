# SPDX-License-Identifier: MIT
"""backend="hoop" for torch.distributed. hoop_torch(7) is the manual.

torch finds it by the entry points of the package: no import is needed. HOOP_TORCH_REPLACE=gloo puts hoop in the place
of gloo, for programs that name gloo themselves.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any


def _devices() -> list[str]:
    """The kinds of device that hoop serves here. torch takes it that the host has each of them."""
    import torch

    try:
        ctypes.CDLL("libcuda.so.1")  # CUDA itself must not begin before the program forks
    except OSError:
        return ["cpu"]
    return ["cpu", "cuda"] if torch.version.cuda else ["cpu"]


def _group() -> Any:
    """The module that needs libhoop: it is loaded when the first group is made."""
    try:
        from . import group
    except ImportError as why:  # its sentence is for the user, and the way to it is not
        raise ImportError(str(why)) from None
    return group


def __getattr__(name: str) -> Any:
    if name == "Options":
        return _group().Options
    if name in ("Compression", "compress_hook"):
        from . import compress

        return getattr(compress, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _create_backend(options: Any, chosen: Any) -> Any:
    return _group().create_backend(options, chosen)


def _create_group(store: Any, rank: int, size: int, limit: Any) -> Any:
    return _group().create_group(store, rank, size, limit)


def _takes_backends(dist: Any) -> bool:
    """True if this torch lets a Python class be a Backend, from 2.14 on."""
    return hasattr(dist.distributed_c10d.Backend, "_ensure_backend_registered")


def _end_groups(torch_side: Any) -> None:
    """destroy_process_group of torch before 2.9 ends groups of NCCL only, and leaves others to the last one that holds them."""
    plain = getattr(torch_side, "_shutdown_backend", None)

    def shutdown(group: Any) -> None:
        ours = sys.modules.get("hoop.torch.group")
        if ours and isinstance(group, ours.HoopGroup):
            group.shutdown()
        else:
            plain(group)

    if plain:
        torch_side._shutdown_backend = shutdown


def register() -> None:
    """Makes backend="hoop" known to torch.distributed, and follows HOOP_TORCH_REPLACE. A second call does nothing."""
    import warnings

    import torch.distributed as dist

    if "HOOP" in dist.Backend._plugins:
        return
    if _takes_backends(dist):
        dist.Backend.register_backend("hoop", _create_backend, extended_api=True, devices=_devices())
    else:
        dist.Backend.register_backend("hoop", _create_group, devices=_devices())
        _end_groups(dist.distributed_c10d)
    replaced = os.environ.get("HOOP_TORCH_REPLACE", "")
    if replaced == "gloo":
        _replace_gloo(dist)
    elif replaced:
        warnings.warn(f"HOOP_TORCH_REPLACE={replaced} has no effect: hoop replaces gloo only", stacklevel=3)


def is_used(group: Any = None) -> bool:
    """True if hoop runs this group, whatever the name of its backend is. group: by default the one of all ranks."""
    import torch
    import torch.distributed as dist

    operations = sys.modules.get("hoop.torch.operations")
    if not operations or not (group or dist.is_initialized()):
        return False
    group = group or dist.group.WORLD
    found = [group]
    for device in ("cpu", "cuda"):
        try:
            found.append(group._get_backend(torch.device(device)))
        except RuntimeError:  # the group has none for it
            pass
    return any(isinstance(getattr(one, "wrapped_pg", one), operations.Operations) for one in found)


def _replace_gloo(dist: Any) -> None:
    """backend="gloo" is hoop from now on."""
    if _takes_backends(dist):
        dist.Backend.register_backend("gloo", _create_backend, extended_api=True, devices=_devices())
        return
    plain = dist.Backend.__new__

    def new(cls: type, name: str) -> Any:
        return plain(cls, "hoop" if isinstance(name, str) and name.lower() == "gloo" else name)

    dist.Backend.__new__ = new
    dist.Backend.default_device_backend_map["cpu"] = "hoop"


def autoload() -> None:
    """torch calls it at the end of `import torch`. It never raises: a program without hoop must not notice it."""
    import warnings

    try:
        import torch.distributed as dist

        if not dist.is_available():
            return
        if os.environ.get("HOOP_TORCH_REPLACE") or not _takes_backends(dist):
            register()
    except Exception as why:
        warnings.warn(f"hoop could not register its backend: {why}", stacklevel=2)
