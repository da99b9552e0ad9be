"""The recording of lesson 07: small, whole, and what the bundled pair does at fixed contexts."""

from __future__ import annotations

import numpy as np
import pytest

from lessonlib.lab import recordings07
from lessonlib.lab.fingerprint import take_fingerprint


def test_the_file_is_small_and_plain_ascii():
    data = (recordings07.DATA / recordings07.FILE).read_bytes()
    assert len(data) < 300_000
    assert data.isascii()


def test_there_is_a_cell_for_every_proposer_K_and_T():
    shape = (len(recordings07.TEMPERATURES), len(recordings07.LENGTHS))
    assert len(recordings07.list_proposers()) >= 5
    for name in recordings07.list_proposers():
        tau, speed = (recordings07.look_up(name, field) for field in ("tau", "speedup"))
        assert tau.shape == speed.shape == shape
        assert ((tau >= 1) & (tau <= np.array(recordings07.LENGTHS) + 1)).all()
        assert ((speed > 0.02) & (speed <= tau * 1.5)).all(), "no forward costs less than nothing"
        low, high = (recordings07.look_up(name, field) for field in ("low", "high"))
        assert ((low <= speed) & (speed <= high)).all()
    with pytest.raises(ValueError, match="no recording of 'magic': use one of"):
        recordings07.look_up("magic")


@pytest.mark.slow
def test_the_recording_belongs_to_the_bundled_weights_and_proposers():
    # Fails after the weights changed: run `python -m lessonlib.lab.recordings07` then.
    from lessonlib.lab.contest import list_contestants
    from lessonlib.lab.pairs import bundled_folder, load_pair

    pair, recording = load_pair("bundled"), recordings07.load_recording()
    assert recording["weights"] == take_fingerprint(bundled_folder())
    assert recordings07.list_proposers() == list(list_contestants(pair))
    fresh, stored = recordings07.measure_alphas(pair), recording["alpha"]
    assert list(stored) == list(fresh)
    for kind, rules in fresh.items():
        assert list(stored[kind]) == list(rules)
        for name, curve in rules.items():
            np.testing.assert_allclose(stored[kind][name], curve, atol=2e-3)
