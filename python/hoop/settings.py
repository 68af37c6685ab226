# SPDX-License-Identifier: MIT
"""Settings of libhoop (hoop_env(7) lists them) as keywords of Python."""

from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Optional

from ._library import lib
from .errors import check


def _text(value: object) -> bytes:
    text = str(int(value) if isinstance(value, bool) else value)
    if "\0" in text:  # C would end the text there
        raise ValueError(f"a setting is {text!r}, with a null character")
    return text.encode()


@contextmanager
def config_of(settings: Mapping[str, Any]) -> Iterator[Optional[int]]:
    """A hoop_config * with these settings, freed afterwards; None if there are none. Those that are None are left out."""
    given = {key: value for key, value in settings.items() if value is not None}
    if not given:
        yield None
        return
    config: Optional[int] = lib.hoop_config_new()
    if config is None:
        raise MemoryError("hoop_config_new")
    try:
        for key, value in given.items():
            check(lib.hoop_config_set(config, _text(key), _text(value)))
        yield config
    finally:
        lib.hoop_config_free(config)
