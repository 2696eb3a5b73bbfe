"""The operators of torch.ops.tconv as the ctypes backend defines them: those of bindings/torch/operators.cpp."""

_TRANSPOSED = (
    "(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, SymInt output_padding, int groups, "
    "int dilation, {} precision{})"
)
_STRIDED = (
    "(Tensor input, Tensor weight, Tensor? bias, SymInt? length, int stride, int padding, int groups, int dilation, "
    "int precision{})"
)
_PACKED = ", Tensor packed, int packed_id"
SCHEMAS = {
    "conv_transpose1d": _TRANSPOSED.format("str", "") + " -> Tensor",
    "conv1d": "(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int dilation, int groups, "
    "str precision) -> Tensor",
    "forward": _TRANSPOSED.format("int", "") + " -> Tensor",
    "pack": _TRANSPOSED.format("int", "") + " -> (Tensor, int)",
    "forward_packed": _TRANSPOSED.format("int", _PACKED) + " -> (Tensor, int)",
    "strided": _STRIDED.format("") + " -> Tensor",
    "strided_pack": _STRIDED.format("") + " -> (Tensor, int)",
    "strided_packed": _STRIDED.format(_PACKED) + " -> (Tensor, int)",
    "weight": "(Tensor input, Tensor grad, int kernel_size, int stride, int padding, int groups, int dilation, "
    "int precision) -> Tensor",
    "bias": "(Tensor grad) -> Tensor",
    "weight_bias": "(Tensor input, Tensor grad, int kernel_size, int stride, int padding, int groups, int dilation, "
    "int precision, bool bias_of_input) -> (Tensor, Tensor)",
}
