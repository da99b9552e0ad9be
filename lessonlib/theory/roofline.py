"""Why verifying is nearly free, and when it stops being so: a roofline of one forward.

A forward reads every weight once, however many tokens it runs, and computes two
FLOPs per weight and token. The slower of the two sets its time: memory for few tokens,
arithmetic for many. Sources: Williams, Waterman and Patterson 2009 (the roofline);
Kaplan et al. 2020 (arXiv 2001.08361, section 2.1: about 2 N FLOPs a token). Left out:
the KV cache, launch overheads, and that no machine reaches its peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from lessonlib.theory.speedup import expected_tokens


@dataclass(frozen=True)
class Preset:
    """A machine with a target and a draft on it; both models in the same precision."""

    name: str
    flops: float  # peak arithmetic, FLOP/s
    bandwidth: float  # peak memory bandwidth, bytes/s
    weight_bytes: int  # bytes per weight
    target: float  # weights of the target
    draft: float  # weights of the draft

    @property
    def c(self) -> float:
        """t_draft / t_target: on one roofline both times grow with the number of weights."""
        return self.draft / self.target

    @property
    def ridge(self) -> float:
        """Tokens per forward at which arithmetic takes as long as reading the weights."""
        return self.flops * self.weight_bytes / (2 * self.bandwidth)


PRESETS = {
    # NVIDIA H100 Tensor Core GPU data sheet, SXM: BF16 1,979 TFLOP/s "with sparsity", so
    # 989.4 dense; 3.35 TB/s. Llama 3.1 8B with Llama 3.2 1B in BF16, sizes from their cards.
    "H100": Preset("H100 SXM, Llama 3.1 8B with 1B", 989.4e12, 3.35e12, 2, 8.03e9, 1.24e9),
    # Intel Core i7-1165G7 (ARK): 4 cores at 2.8 GHz, 2 channels of DDR4-3200. Each core does
    # 32 float32 FLOPs a cycle (one 512-bit FMA): 4 x 2.8e9 x 32; memory 2 x 8 bytes x 3.2e9.
    # GPT-2 medium with GPT-2 in float32.
    "laptop": Preset("laptop CPU, GPT-2 medium with GPT-2", 358.4e9, 51.2e9, 4, 355e6, 124e6),
}


def forward_seconds(preset: Preset, n: float) -> float:
    """Seconds of one target forward over ``n`` tokens in total, at the machine's peak.

    >>> f"{forward_seconds(PRESETS['H100'], 1) * 1e3:.1f} ms"
    '4.8 ms'
    """
    if not n > 0:
        raise ValueError(f"n is {n}: a forward runs at least one token")
    reading = preset.target * preset.weight_bytes / preset.bandwidth
    computing = 2 * preset.target * n / preset.flops
    return max(reading, computing)


def verify_cost(preset: Preset, n: int, batch: int = 1) -> float:
    """v(n) in a batch: verifying n tokens for each sequence against running one for each.

    >>> [round(verify_cost(PRESETS["H100"], 5, batch), 2) for batch in (1, 128, 512)]
    [1.0, 2.17, 5.0]
    """
    if not batch >= 1:
        raise ValueError(f"batch is {batch}: use at least one sequence")
    return forward_seconds(preset, batch * n) / forward_seconds(preset, batch)


def largest_gaining_batch(preset: Preset, alpha: float, K: int) -> float:
    """The batch at which the gain ends: the speedup is above 1 below it. 0 if there is no gain.

    Up to the ridge plain decoding is bound by memory, and v = max(1, batch (K + 1) / ridge).
    Setting E = c K + v gives batch = ridge (E − c K) / (K + 1). Beyond the ridge v = K + 1,
    which no E exceeds.

    >>> round(largest_gaining_batch(PRESETS["H100"], 0.8, 4))
    162
    """
    room = expected_tokens(alpha, K) - preset.c * K
    return preset.ridge * room / (K + 1) if room > 1 else 0.0
