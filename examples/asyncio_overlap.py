# SPDX-License-Identifier: MIT
"""Operations in flight while coroutines do something else: `await` gives the result, and the loop never blocks.

hooprun -n 4 python3 asyncio_overlap.py
"""

import array
import asyncio

import hoop

LAYERS, ELEMENTS = 4, 100_000


async def average(comm, layer):
    """The mean of one array over all ranks."""
    x = array.array("f", [comm.rank + layer]) * ELEMENTS
    return await comm.iallreduce(x, "avg")


async def tick(ticks):
    """Stands for the rest of a program: it goes on while arrays are on their way."""
    while True:
        ticks.append(None)
        await asyncio.sleep(0)


async def run(comm):
    ticks = []
    other = asyncio.create_task(tick(ticks))
    averages = await asyncio.gather(*[average(comm, layer) for layer in range(LAYERS)])
    other.cancel()
    wanted = (comm.size - 1) / 2
    right = all(x == array.array("f", [wanted + layer]) * ELEMENTS for layer, x in enumerate(averages))
    print(f"rank {comm.rank} of {comm.size}: {LAYERS} averages {'are right' if right else 'are wrong'}")
    if not ticks:
        raise SystemExit("the loop was blocked")
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    with hoop.Comm() as comm:
        asyncio.run(run(comm))
