"""Plans by problem, for the ctypes backend. Making one costs tens of microseconds, finding one a fraction of one.

The key describes the tensors of a call without their memory, so finding the plan of a call also proves that the call is
valid.

Safe to use from any thread: plans are made outside the lock (two threads that miss the same plan both make it), and a
plan that is in use outlives its entry. Safe across fork(): the child begins with an empty cache.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch

from tconv._backends.capi import CPU, CUDA, Library, Plan, PlanOptions
from tconv._backends.problems import Asked

_CAPACITY = 16 << 20  # bytes; a plan takes about 6 kB, a vocoder has under ten layers, a server meets many lengths
_ENTRY = 2048  # of them: Python's objects for an entry


class Layout:
    """A packed layout, shared by the plans that read it. Its number is never reused, so that callers can hold
    packed weights by it: who holds that of a layout that is gone packs again."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self._numbers)


class CachedPlan(Plan):
    """A plan with what Python computes once for it."""

    output_shape: tuple[int, ...]
    output_padding: int
    slow = False  # on a GPU, where PyTorch's own kernel is faster
    layout: Layout | None = None
    packed_id = 0  # equal ids mean interchangeable packed buffers; 0: the operation reads no weights
    recent = False  # found again since the cache looked at it last

    @property
    def bytes(self) -> int:
        return self.host_bytes + 2 * len(self.pack_key) + _ENTRY


class PlanCache:
    """Bounded in bytes. A plan that was not found again since the last time that room was needed goes first: unlike
    the order of use, that is no more to write down at each call than a mark."""

    def __init__(self, library: Library, parallel_for: int | None) -> None:
        """parallel_for: address of a tconv_parallel_for that takes the number of threads for its context, for CPU
        plans of several threads; else they run on the library's own."""
        self._library = library
        self._parallel_for = parallel_for
        self._clear()
        os.register_at_fork(after_in_child=self._in_child)

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[Any, ...], CachedPlan] = OrderedDict()
        self._layouts: WeakValueDictionary[str, Layout] = WeakValueDictionary()
        self._bytes = 0

    def _in_child(self) -> None:
        """In the child another thread may hold the lock forever, and the threads behind parallel_for are gone."""
        self._parallel_for = None
        self._clear()

    def use(self) -> tuple[int, int, int]:
        """Plans, their bytes, layouts."""
        with self._lock:
            return len(self._plans), self._bytes, len(self._layouts)

    def find(self, *key: Any) -> CachedPlan:
        """The product's function of problems.py, then its arguments. Raises what the rules and the library refuse."""
        plan = self._plans.get(key)
        if plan is None:
            return self._keep(key, self._make(*key))
        plan.recent = True
        return plan

    def _keep(self, key: tuple[Any, ...], made: CachedPlan) -> CachedPlan:
        gone = []  # destroyed after the lock is free
        with self._lock:
            kept = self._plans.get(key)
            if kept is not None:
                return kept
            if made.packed_bytes:
                made.layout = self._layouts.setdefault(made.pack_key, Layout())
                made.packed_id = made.layout.number
            if made.bytes > _CAPACITY:  # planned at every call, which such a problem's arithmetic outweighs
                return made
            self._plans[key] = made
            self._bytes += made.bytes
            while self._bytes > _CAPACITY:
                oldest, plan = self._plans.popitem(last=False)
                if plan.recent or plan is made:
                    plan.recent = False
                    self._plans[oldest] = plan
                else:
                    self._bytes -= plan.bytes
                    gone.append(plan)
        return made

    def _make(
        self, product: Callable[..., Asked], device: torch.device, mode: int, threads: int, *call: Any
    ) -> CachedPlan:
        problem, shape = product(self._library, *call)
        problem.precision = mode
        options = PlanOptions(threads=threads)
        if device.type == "cuda":
            options.device, options.device_index = CUDA, device.index
        else:
            options.device = CPU
            if threads > 1 and self._parallel_for is not None:
                options.parallel_for, options.executor_context = self._parallel_for, threads
        plan = CachedPlan(self._library, problem, options)
        plan.output_shape = tuple(shape)
        plan.slow = device.type == "cuda" and plan.is_slow
        plan.output_padding = problem.output_padding
        return plan
