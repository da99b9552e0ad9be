"""Speculative decoding, one idea a module: theory, decoding, drafting, lab, lessons."""

import os

# PyTorch's threads wait for each other by spinning. On a shared machine, where another
# process holds a core, that makes a small model many times slower; sleeping costs
# next to nothing. Read when torch is loaded, so it is set before anything can load it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
