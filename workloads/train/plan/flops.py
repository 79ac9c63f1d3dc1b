"""Model FLOPs, in the convention of PaLM (https://arxiv.org/abs/2204.02311, appendix B) and torchtitan.

A multiply-add counts two; backward counts twice forward; attention is counted without the causal discount; what is computed again in the
backward pass is never counted.
"""

from ..model_shape import ModelShape

FORWARD_PART = 1 / 3
BACKWARD_PART = 2 / 3


def flops_per_token(shape: ModelShape, sequence_length: int) -> float:
    """Return the FLOPs of forward and backward for one token: 6 per multiplied parameter, and 12 * L * h * d * s of attention.

    The head is multiplied once whether or not it is tied; the lookup of an embedding multiplies nothing.
    """
    multiplied = shape.num_layers * shape.layer_parameters + shape.hidden_size + shape.embedding_parameters
    return 6 * multiplied + _attention(shape, sequence_length)


def recomputed_part(shape: ModelShape, sequence_length: int) -> float:
    """Return what full checkpointing computes again, the forward pass of all blocks, as a part of `flops_per_token`."""
    blocks = 6 * shape.num_layers * shape.layer_parameters + _attention(shape, sequence_length)
    return blocks * FORWARD_PART / flops_per_token(shape, sequence_length)


def _attention(shape: ModelShape, sequence_length: int) -> float:
    return 12.0 * shape.num_layers * shape.num_heads * shape.head_dim * sequence_length
