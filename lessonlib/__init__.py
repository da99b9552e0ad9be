"""Speculative decoding, one idea a module: theory, decoding, drafting, lab, lessons."""
