"""What a call costs."""

import time


def microseconds(calls, rounds=7, repeats=2000):
    """Of many short rounds the best: the candidates take turns, so that what else runs disturbs all of them alike."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats * 1e6)
    return best
