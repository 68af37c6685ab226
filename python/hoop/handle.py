# SPDX-License-Identifier: MIT
"""What owns something of libhoop: it is freed once, and other processes have none of it."""

from typing import NoReturn


class Handle:
    """An object that is neither copied nor pickled, since its copy would free the same handle, or use it after that."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"hoop.{type(self).__name__} cannot be copied or pickled: it belongs to one object of one process; another "
            "process makes its own"
        )
