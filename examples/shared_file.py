# SPDX-License-Identifier: MIT
"""Ranks that have nothing in common but a folder, such as a home on NFS. Rank 0 serves, and writes the address and the
secret to a file that only its user may read; the others wait for it. Its name must be new for each start of the job.

    for r in 0 1 2; do python3 shared_file.py meeting.$$ $r 3 & done; wait
"""

import array
import os
import sys
import time
from pathlib import Path

import hoop

PATIENCE = 60  # seconds


def write_file(path, *words):
    """The file appears whole, or not at all."""
    fresh = Path(f"{path}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as file:
            print(*words, file=file)
        fresh.rename(path)
    except OSError:
        fresh.unlink()
        raise


def read_file(path):
    end = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"shared_file: rank 0 has not written {path}")
        time.sleep(0.1)
    return path.read_text().split()


def join(rank, size, address, secret):
    return hoop.Comm(rank=rank, size=size, rendezvous=address, secret=secret)


def add(comm):
    total = comm.allreduce(array.array("i", [comm.rank + 1]))[0]
    print(f"rank {comm.rank} of {comm.size}: the sum of 1 to {comm.size} is {total}")


def main(path, rank, size):
    if rank > 0:
        with join(rank, size, *read_file(path)) as comm:
            add(comm)
        return
    secret = hoop.new_secret()
    with hoop.Server(secret=secret) as server:
        write_file(path, server.address, secret)
        try:
            comm = join(rank, size, server.address, secret)
        finally:
            path.unlink()  # all have read it, or it is of no use, and it has the secret
        with comm:
            add(comm)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: shared_file.py FILE RANK SIZE")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
