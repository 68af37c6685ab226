# SPDX-License-Identifier: MIT
"""Linear regression with data on all ranks: each computes the gradient of its rows, and an allreduce adds them up.

hooprun -n 4 python3 numpy_regression.py
"""

import hoop
import numpy as np

ROWS, COLUMNS, STEPS, RATE = 2000, 8, 200, 0.1


def rows_of(rank, size):
    """This rank's share of the data. All ranks draw the same numbers, so the result does not depend on their count."""
    numbers = np.random.default_rng(1)
    x, truth = numbers.normal(size=(ROWS, COLUMNS)), numbers.normal(size=COLUMNS)
    y = x @ truth + 0.01 * numbers.normal(size=ROWS)
    return x[rank::size], y[rank::size], truth


def main():
    with hoop.Comm() as comm:
        x, y, truth = rows_of(comm.rank, comm.size)
        weights = np.zeros(COLUMNS)
        for _ in range(STEPS):
            gradient = x.T @ (x @ weights - y)
            comm.allreduce(gradient)  # in place: the sum over all ranks
            weights -= RATE * gradient / ROWS
        error = np.array([np.sum((x @ weights - y) ** 2)])
        comm.allreduce(error)
        everyone = np.empty((comm.size, COLUMNS))
        comm.allgather(weights, everyone)
        same = (everyone == weights).all()
        if comm.rank == 0:
            print(f"{comm.size} ranks, {ROWS} rows: mean squared error {error[0] / ROWS:.6f}")
            print(f"largest deviation of a weight: {np.abs(weights - truth).max():.4f}")
            print("weights are bit-identical on all ranks:", same)
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
