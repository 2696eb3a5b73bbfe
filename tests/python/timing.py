"""What a call costs."""

import time


def microseconds(calls, rounds=150, repeats=100):
    """The best of many short rounds. The candidates take turns every few milliseconds, so that on a machine that others
    share each of them meets quiet moments."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats * 1e6)
    return best
