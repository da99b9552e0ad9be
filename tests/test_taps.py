"""Which hidden states a head is shown: one table, written out."""

from __future__ import annotations

import pytest
import torch

from lessonlib.decoding.gpt2 import Output
from lessonlib.decoding.taps import take_taps
from tests.tinytarget import make_target


@pytest.mark.parametrize(("layers", "low", "middle"), [(2, 0, 0), (4, 0, 1), (12, 2, 5)])
def test_the_taps_are_a_quarter_and_half_way_up_and_the_features(layers, low, middle):
    target = make_target(layers=layers)
    output = target.forward([3, 1, 4, 1], target.new_cache())
    assert len(output.hidden) == layers
    assert len({float(state.sum()) for state in output.hidden}) == layers, "all differ"
    taps = take_taps(output)
    assert taps.shape == (4, 3, 8)
    for row in range(4):
        assert torch.equal(taps[row, 0], output.hidden[low][row])
        assert torch.equal(taps[row, 1], output.hidden[middle][row])
        assert torch.equal(taps[row, 2], output.features[row])


def test_a_model_that_shows_no_hidden_states_is_refused():
    with pytest.raises(ValueError, match="output has no hidden states"):
        take_taps(Output(torch.zeros(1, 7), torch.zeros(1, 8)))
