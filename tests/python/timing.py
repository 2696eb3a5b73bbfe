"""What a call costs."""

import time


def microseconds(calls, rounds=150, repeats=100):
    """Of many short rounds the best: the candidates take turns every few milliseconds, so that all of them meet quiet
    moments of a machine that others share."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats * 1e6)
    return best
