"""The C API through ctypes, for every PyTorch from 2.0 on.

A call in steps: what the tensors look like (`_seen`), the plan for that (plans.py, which also refuses), output
and workspace from PyTorch's allocator, addresses into a tconv_arguments, tconv_run on the current stream.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tconv._backends import library_folder, openmp, plans, problems, pytorch_convolution
from tconv._backends.calls import (
    SMALL,
    Scratch,
    address,
    aligned,
    current_stream,
    dense,
    direct,
    mode_of,
    out_of_memory,
    resolved,
    seen,
    steps,
    threads,
    uint8,
    way,
)
from tconv._backends.capi import ARGUMENTS_SIZE, BUFFER_ALIGNMENT, Library, Plan, PlanOptions, open_library
from tconv._backends.schemas import SCHEMAS

_pack_arguments = struct.Struct("@IPPPPPPPNPP").pack  # a tconv_arguments, in a fifth of the time of the ctypes one


class Ctypes:
    name = "ctypes"

    def __init__(self) -> None:
        self.library = Library(open_library(library_folder()))
        parallel_for = openmp.parallel_for(library_folder())
        self._threads = "tconv's own" if parallel_for is None else "PyTorch's"
        self._plans = plans.PlanCache(self.library, parallel_for)
        self._find = self._plans.find
        self._run_plan = self.library.calls.tconv_run
        self._scratch = Scratch()
        self.operators = self._define()
        ops = torch.ops.tconv
        self.forward = way(self._forward, ops.forward.default)
        self.pack = way(self._pack, ops.pack.default)
        self.forward_packed = way(self._forward_packed, ops.forward_packed.default)
        self.strided = way(self._strided, ops.strided.default)
        self.strided_pack = way(self._strided_pack, ops.strided_pack.default)
        self.strided_packed = way(self._strided_packed, ops.strided_packed.default)
        self._weight_op = ops.weight.default
        self._bias_op = ops.bias.default
        self._weight_bias_op = ops.weight_bias.default

    # --- what the package calls ---------------------------------------------------------------------------

    def weight(self, input: Tensor, grad: Tensor, *rest: Any) -> Tensor:
        if direct(input, grad, None):
            return self._weight(input, grad, *rest)
        return self._weight_op(input, grad, *rest)  # type: ignore[no-any-return]

    def bias(self, grad: Tensor) -> Tensor:
        if direct(grad, grad, None):
            return self._bias(grad)
        return self._bias_op(grad)  # type: ignore[no-any-return]

    def weight_bias(self, input: Tensor, grad: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        if direct(input, grad, None):
            return self._weight_bias(input, grad, *rest)
        return self._weight_bias_op(input, grad, *rest)  # type: ignore[no-any-return]

    def explain(self, problem: str, device: str, threads: int) -> str:
        """device: "cpu", "cuda:<index>", or the name of a GPU that need not be present."""
        options = PlanOptions(threads=threads, device=int(device != "cpu"))
        if device.startswith("cuda:"):
            options.device_index = int(device[5:])
        elif device != "cpu":
            options.device_name = device.encode()
        return Plan(self.library, self.library.parse(problem), options).explain()

    def build_info(self) -> str:
        return f"{self.library.build_info()}, CPU work on {self._threads} threads"

    def cache_use(self) -> tuple[int, int, int]:
        """Plans that are kept, the bytes that they hold, their packed layouts."""
        return self._plans.use()

    # --- kernels: dense tensors on the CPU or on CUDA -----------------------------------------------------

    def _forward(self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: int) -> Tensor:
        plan = self._plan_with_weight(problems.transposed, input, weight, bias, numbers)
        return self._run_transposed(plan, input, weight, bias, None)

    def _conv_transpose1d(self, *call: Any) -> Tensor:
        return self._forward(*call[:-1], mode_of(call[-1]))

    def _strided(self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: int) -> Tensor:
        plan = self._plan_with_weight(problems.strided, input, weight, bias, numbers)
        return self._run_strided(plan, input, weight, bias, None, numbers)

    def _conv1d(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, dilation: int, groups: int, word: str,
    ) -> Tensor:  # fmt: skip
        return self._strided(input, weight, bias, None, stride, padding, groups, dilation, mode_of(word))  # type: ignore[arg-type]

    def _pack(self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: int) -> tuple[Tensor, int]:
        return self._packed(self._plan_with_weight(problems.transposed, input, weight, bias, numbers), weight)

    def _strided_pack(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: int
    ) -> tuple[Tensor, int]:
        return self._packed(self._plan_with_weight(problems.strided, input, weight, bias, numbers), weight)

    def _forward_packed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any
    ) -> tuple[Tensor, int]:
        *numbers, packed, packed_id = rest
        plan = self._plan_with_weight(problems.transposed, input, weight, bias, numbers)
        return self._run_packed(self._run_transposed, plan, input, weight, bias, packed, packed_id)

    def _strided_packed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any
    ) -> tuple[Tensor, int]:
        *numbers, packed, packed_id = rest
        plan = self._plan_with_weight(problems.strided, input, weight, bias, numbers)
        return self._run_packed(self._run_strided, plan, input, weight, bias, packed, packed_id, numbers)

    def _weight(self, input: Tensor, grad: Tensor, *numbers: int) -> Tensor:
        *rest, mode = numbers
        mode = resolved(mode, input) if mode else 0
        plan = self._find(
            problems.weight, input.device, mode, threads(input), seen(input), steps(input), seen(grad),
            steps(grad), *rest,
        )  # fmt: skip
        if input.numel() == 0 or grad.numel() == 0:  # which have no address
            return input.new_zeros(plan.output_shape)
        if plan.slow:
            return pytorch_convolution.weight(input, grad, plan.output_padding, *rest)
        return self._run(plan, input, x=input.data_ptr(), grad=grad.data_ptr())

    def _bias(self, grad: Tensor) -> Tensor:
        if grad.numel() == 0:  # no address, and a problem has a position
            return pytorch_convolution.bias(grad)
        plan = self._find(problems.bias, grad.device, 0, threads(grad), seen(grad), steps(grad))
        return pytorch_convolution.bias(grad) if plan.slow else self._run(plan, grad, grad=grad.data_ptr())

    def _weight_bias(self, input: Tensor, grad: Tensor, *numbers: Any) -> tuple[Tensor, Tensor]:
        *rest, mode, bias_of_input = numbers
        plan = self._find(
            problems.weight_bias, input.device, resolved(mode, input) if mode else 0, threads(input), seen(input),
            steps(input), seen(grad), steps(grad), *rest, bias_of_input,
        )  # fmt: skip
        # A tensor of no elements has no address; and the two calls choose by themselves what PyTorch computes.
        if input.numel() == 0 or grad.numel() == 0 or plan.slow:
            return self._weight(input, grad, *rest, mode), self._bias(input if bias_of_input else grad)
        sums = input.new_empty(input.shape[-2] if bias_of_input else grad.shape[-2])
        output = self._run(plan, input, x=input.data_ptr(), grad=grad.data_ptr(), grad_bias=sums.data_ptr())
        return output, sums

    # --- what they are made of ----------------------------------------------------------------------------

    def _plan_with_weight(
        self, product: Any, input: Tensor, weight: Tensor, bias: Tensor | None, numbers: Sequence[int]
    ) -> plans.CachedPlan:
        *rest, mode = numbers
        mode = resolved(mode, input) if mode else 0
        return self._find(
            product, input.device, mode, threads(input), seen(input), steps(input), seen(weight),
            None if bias is None else seen(bias), *rest,
        )  # fmt: skip

    def _run_transposed(
        self, plan: plans.CachedPlan, input: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None
    ) -> Tensor:
        raw = None if packed is not None else dense(weight)
        bias = dense(bias)
        return self._run(plan, input, address(input), address(raw), packed, address(bias))

    def _run_strided(
        self, plan: plans.CachedPlan, input: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None,
        numbers: Sequence[int],
    ) -> Tensor:  # fmt: skip
        if input.numel() == 0 and input.is_cuda:  # no address: the output is its bias, -0.0 included, or zeros
            zeros = input.new_zeros(plan.output_shape)
            return zeros if bias is None else bias[:, None] - zeros
        if plan.slow:
            return pytorch_convolution.strided(input, weight, bias, plan.output_shape[-1], *numbers[1:5])
        raw = None if packed is not None else dense(weight)
        bias = dense(bias)
        return self._run(plan, input, 0, address(raw), packed, address(bias), address(input))

    def _packed(self, plan: plans.CachedPlan, weight: Tensor) -> tuple[Tensor, int]:
        packed = weight.new_empty(plan.packed_bytes + BUFFER_ALIGNMENT - 1, dtype=uint8)
        raw = weight.contiguous()
        self.library.check(
            self.library.calls.tconv_pack(
                plan.handle, raw.data_ptr(), aligned(packed.data_ptr()), plan.packed_bytes,
                current_stream(weight.device.index) if weight.is_cuda else None,  # type: ignore[misc]
            )
        )  # fmt: skip
        return packed, plan.packed_id

    def _run_packed(
        self, run: Any, plan: plans.CachedPlan, input: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor,
        packed_id: int, *rest: Any,
    ) -> tuple[Tensor, int]:  # fmt: skip
        if plan.packed_id != packed_id:
            return weight.new_empty(0, dtype=uint8), plan.packed_id
        if packed.numel() < plan.packed_bytes + BUFFER_ALIGNMENT - 1:
            raise RuntimeError("tconv: packed is too small for its packed_id")
        return run(plan, input, weight, bias, packed, *rest), packed_id

    def _run(
        self, plan: plans.CachedPlan, like: Tensor, x: int = 0, weight: int = 0, packed: Tensor | None = None,
        bias: int = 0, grad: int = 0, grad_bias: int = 0,
    ) -> Tensor:  # fmt: skip
        """On addresses, whose tensors the caller keeps; `like` says where the output goes."""
        size = plan.workspace_raw if packed is None else plan.workspace_packed
        cuda = like.is_cuda
        try:
            output = like.new_empty(plan.output_shape)
            if size > SMALL or (cuda and size):
                # Freed on return: the allocator gives it again only to work that is queued behind this call.
                memory = like.new_empty(size + BUFFER_ALIGNMENT - 1, dtype=uint8)
                workspace = aligned(memory.data_ptr())
            else:
                workspace = self._scratch.address
        except RuntimeError as error:
            raise out_of_memory(error, plan.output_shape, size) from None
        status = self._run_plan(
            plan.handle,
            _pack_arguments(
                ARGUMENTS_SIZE,
                x,
                weight,
                0 if packed is None else aligned(packed.data_ptr()),
                bias,
                grad,
                output.data_ptr(),
                workspace,
                size,
                current_stream(like.device.index) if cuda else 0,  # type: ignore[misc]
                grad_bias,
            ),
        )
        if status:
            self.library.check(status)
        return output

    # --- operators ----------------------------------------------------------------------------------------

    def _define(self) -> torch.library.Library:
        library = torch.library.Library("tconv", "DEF")
        for name, schema in SCHEMAS.items():
            library.define(name + schema)
            for key in ("CPU", "CUDA"):
                library.impl(name, getattr(self, f"_{name}"), key)
        return library
