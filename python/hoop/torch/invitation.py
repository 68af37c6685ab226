# SPDX-License-Identifier: MIT
"""How rank 0 invites the other ranks of a group through the group's store, which may hold what earlier starts left there.

Each other rank asks with a number of its own, new each time, and takes only an answer to that number: what a start that
was killed has left is never taken for this start's. Every key has one writer, and its last value counts:

    asks/RANK     "NUMBER PROOF JOB"  the rank waits for an answer; JOB is the last that it took here; PROOF: see secret.py
                  "- - JOB"           it has taken the invitation to JOB
    answers/RANK  "NUMBER JOB TEXT"   ""  once the rank has taken it

A rank that has taken a job and asks again is ahead of rank 0: it means the next group, and this one leaves it unanswered.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Iterator

_FIRST_PAUSE, _LAST_PAUSE = 0.001, 0.02  # seconds
_SILENCE = 5.0  # seconds after which a wait says for whom


def _value(store: Any, key: str) -> str:
    return bytes(store.get(key)).decode() if store.check([key]) else ""


def _looks(limit: float, rank: int, size: int) -> Iterator[None]:
    """Time for one look at the store after the other; TimeoutError after `limit` seconds.

    The wait inside torch's stores would keep Ctrl-C waiting, so this one is here.
    """
    start, pause, told = time.monotonic(), _FIRST_PAUSE, False

    def waits() -> str:
        group = f"the same group, of {size} ranks, over the same store"
        return f"rank {rank} has waited {time.monotonic() - start:.0f} s for rank 0 to make {group}"

    while time.monotonic() - start < limit:
        yield
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
        if not told and time.monotonic() - start > _SILENCE:
            told = True
            logging.getLogger("hoop").warning(waits())
    raise TimeoutError(waits())


class Host:
    """Rank 0 answers the others from here to the end of the block, by a thread: a rank that comes late, too.

    store: the group's part, which groups of other sizes do not use. text: the line that a rank gets with the job, from
    the number and the proof with which it has asked; it does not stay in the store.
    """

    def __init__(self, store: Any, size: int, job: str, text: Callable[[str, str], str]) -> None:
        self._store, self._job, self._text = store, job, text
        self._awaited = set(range(1, size))
        self._stop = threading.Event()

    def look(self) -> bool:
        """Answers who has asked by now. True when all ranks have taken the invitation."""
        for rank in sorted(self._awaited):
            number, _, rest = _value(self._store, f"asks/{rank}").partition(" ")
            proof, _, taken = rest.rpartition(" ")
            if taken == self._job:
                self._store.set(f"answers/{rank}", "")
                self._awaited.remove(rank)
            elif number not in ("", "-"):
                answer = f"{number} {self._job} {self._text(number, proof)}"
                if _value(self._store, f"answers/{rank}") != answer:
                    self._store.set(f"answers/{rank}", answer)
        return not self._awaited

    def _serve(self) -> None:
        pause = _FIRST_PAUSE
        with suppress(RuntimeError):  # the store has died: each rank that waits hears of it itself
            while not self._stop.wait(pause) and not self.look():
                pause = min(2 * pause, _LAST_PAUSE)

    def __enter__(self) -> Host:
        self._thread = threading.Thread(target=self._serve, name="hoop-invitation", daemon=True)
        self._thread.start()
        return self

    def wait(self, seconds: float) -> None:
        """Returns when all ranks have taken the invitation, or after this time."""
        self._thread.join(seconds)

    def __exit__(self, error: object, *where: object) -> None:
        self._stop.set()
        self.wait(1)
        if not error and not self._thread.is_alive():
            with suppress(RuntimeError):
                self.look()


def ask(store: Any, rank: int, size: int, proof: Callable[[str], str], limit: float) -> tuple[str, str]:
    """The job and the text of rank 0's invitation. TimeoutError if none comes within `limit` seconds."""
    number = secrets.token_hex(8)
    taken = _value(store, f"asks/{rank}").split(" ")[-1]
    store.set(f"asks/{rank}", f"{number} {proof(number)} {taken}")
    for _ in _looks(limit, rank, size):
        to, _, invitation = _value(store, f"answers/{rank}").partition(" ")
        if to == number:
            break
    job, _, text = invitation.partition(" ")
    store.set(f"asks/{rank}", f"- - {job}")
    return job, text
