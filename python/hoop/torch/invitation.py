# SPDX-License-Identifier: MIT
"""How rank 0 invites the other ranks of a group through the group's store, which may hold what earlier starts left there.

Each other rank asks with a number of its own, new each time, and takes only an answer to that number: what a start that
was killed has left is never taken for this start's. Every key has one writer, and its last value counts:

    asks/RANK     "NUMBER JOB"   the rank waits for an answer; JOB is the last that it took here
                  "- JOB"        it has taken the invitation to JOB
    answers/RANK  "NUMBER JOB TEXT"

A rank that has taken a job and asks again is ahead of rank 0: it means the next group, and this one leaves it unanswered.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any

_LAST_PAUSE = 0.02  # seconds; the first pause is 1 ms


def _value(store: Any, key: str) -> str:
    return bytes(store.get(key)).decode() if store.check([key]) else ""


class Host:
    """Rank 0 answers the others from here to the end of the block, by a thread: a rank that comes late, too.

    store: the group's part, which groups of other sizes do not use. text: one line, which each rank gets with the job.
    """

    def __init__(self, store: Any, size: int, job: str, text: str) -> None:
        self._store, self._job, self.text = store, job, text
        self._awaited = set(range(1, size))
        self._answered: dict[int, str] = {}
        self._stop = threading.Event()

    def look(self) -> bool:
        """Answers who has asked by now. True when all ranks have taken the invitation."""
        for rank in sorted(self._awaited):
            number, _, taken = _value(self._store, f"asks/{rank}").partition(" ")
            if taken == self._job:
                self._awaited.remove(rank)
            elif number not in ("", "-", self._answered.get(rank)):
                self._store.set(f"answers/{rank}", f"{number} {self._job} {self.text}")
                self._answered[rank] = number
        return not self._awaited

    def _serve(self) -> None:
        pause = 0.001
        try:
            while not self._stop.wait(pause) and not self.look():
                pause = min(2 * pause, _LAST_PAUSE)
        except RuntimeError:  # the store has died: each rank that waits hears of it itself
            pass

    def __enter__(self) -> Host:
        self._thread = threading.Thread(target=self._serve, name="hoop-invitation", daemon=True)
        self._thread.start()
        return self

    def wait(self, seconds: float) -> None:
        """Returns when all ranks have taken the invitation, or after this time."""
        self._thread.join(seconds)

    def __exit__(self, *why: object) -> None:
        self._stop.set()
        self.wait(1)


def ask(store: Any, rank: int, size: int) -> tuple[str, str]:
    """The job and the text of rank 0's invitation. TimeoutError if none comes within the store's time limit.

    The wait inside torch's stores would keep Ctrl-C waiting, so this one is here.
    """
    number = secrets.token_hex(8)
    taken = _value(store, f"asks/{rank}").partition(" ")[2]
    store.set(f"asks/{rank}", f"{number} {taken}")
    limit, pause = store.timeout.total_seconds(), 0.001
    deadline = time.monotonic() + limit
    while True:
        to, _, invitation = _value(store, f"answers/{rank}").partition(" ")
        if to == number:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"rank {rank} asked rank 0 in the group's store for {limit:.0f} s, and rank 0 did not answer: rank 0 has to "
                f"make the same group, of {size} ranks, over the same store"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
    job, _, text = invitation.partition(" ")
    store.set(f"asks/{rank}", f"- {job}")
    return job, text
