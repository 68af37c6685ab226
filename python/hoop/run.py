# SPDX-License-Identifier: MIT
"""`python3 -m hoop.run` is hooprun: the package's own if it brings one (a wheel does), else the one in PATH."""

import os
import sys
from pathlib import Path
from typing import Optional


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK) and path.resolve() != Path(sys.argv[0]).resolve()


def find(program: str) -> Optional[Path]:
    """hooprun or another program of hoop; never this script itself, which pip may have put into PATH by that name."""
    folders = [Path(__file__).parent / "bin", *map(Path, os.get_exec_path())]
    return next((folder / program for folder in folders if _is_program(folder / program)), None)


def start(program: str) -> None:
    """Becomes the program, with this process's arguments."""
    path = find(program)
    if path is None:
        sys.exit(
            f"hoop: there is no {program} beside this package or in PATH: install hoop, or put its folder into PATH"
        )
    os.execv(path, [program, *sys.argv[1:]])


def hooprun() -> None:
    start("hooprun")


def hoop_rendezvous() -> None:
    start("hoop-rendezvous")


def hoop_bench() -> None:
    start("hoop-bench")


def hoop_top() -> None:
    start("hoop-top")


if __name__ == "__main__":
    hooprun()
