"""The mathematics of speculative decoding in NumPy: no model, no torch."""
