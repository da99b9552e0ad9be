"""Untossed uniforms: run a procedure in every world its random numbers can lead to.

A ``Coin`` stands for a uniform on [0, 1) that has not been tossed. Comparing it with
a threshold splits the world in two; ``law_of`` visits every world by running the
procedure again and adds up how much of the unit cube leads to each outcome. Nothing
is sampled: in float64 the result is right to rounding, on Fractions it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

# Thinner worlds are rounding, such as a running sum that ends at 1 - 1e-16: nobody's
# code is asked what it does there.
SLIVER = 1e-12
Law = dict[Hashable, float]


class Coin:
    """An untossed uniform, possibly scaled and shifted; it knows how to be compared.

    Works with ``<``, ``<=``, ``>``, ``>=`` against numbers and arrays, with NumPy's
    comparisons and ``searchsorted``, with ``bisect``, and as ``a * u + b``. Anything
    that needs one definite number raises TypeError.
    """

    def __init__(self, world: World, index: int, scale=1, shift=0):
        self._world, self._index, self._scale, self._shift = world, index, scale, shift

    def _below(self, threshold):
        """Is this coin's value below ``threshold`` (a number or an array of them)?"""
        if isinstance(threshold, Coin):
            return self._below_coin(threshold)
        cuts = (np.asarray(threshold) - self._shift) / self._scale
        inside = self._world.settle(self._index, np.unique(cuts).tolist())
        below = cuts > inside if self._scale > 0 else cuts < inside
        return below if np.ndim(threshold) else bool(below)

    def _below_coin(self, other: Coin) -> bool:
        """A uniform against itself, scaled or not: NumPy's ``c.searchsorted(u)`` does it."""
        if (other._world, other._index) != (self._world, self._index):
            raise TypeError("compare a uniform with a probability, not with another uniform")
        scale, shift = self._scale - other._scale, self._shift - other._shift
        return shift < 0 if scale == 0 else Coin(self._world, self._index, scale, shift) < 0

    def __lt__(self, other):
        return self._below(other)

    __le__ = __lt__  # they differ on a set of measure zero

    def __gt__(self, other):
        below = self._below(other)
        return ~below if np.ndim(below) else not below

    __ge__ = __gt__

    def __mul__(self, factor):
        return Coin(self._world, self._index, self._scale * factor, self._shift * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        return Coin(self._world, self._index, self._scale / divisor, self._shift / divisor)

    def __add__(self, term):
        return Coin(self._world, self._index, self._scale, self._shift + term)

    __radd__ = __add__

    def __sub__(self, term):
        return self + -term

    def __neg__(self):
        return self * -1

    def __rsub__(self, term):
        return -self + term

    def __repr__(self):
        return "<a uniform, not tossed yet>"

    def __format__(self, spec):  # a learner's f"{u[0]:.2f}" is no mistake
        return repr(self)

    def _refuse(self, *_, **__):
        raise TypeError("a uniform can only be compared with a threshold or given to draw()")

    __float__ = __int__ = __bool__ = __round__ = __abs__ = __pow__ = __mod__ = _refuse

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        apply = _UFUNCS.get(ufunc)
        if apply is None or method != "__call__" or kwargs or len(inputs) != 2:
            return self._refuse()
        return apply(*inputs)

    def __array_function__(self, function, types, args, kwargs):
        if function is not np.searchsorted:
            return self._refuse()
        given = dict(zip(("a", "v"), args, strict=False)) | kwargs
        if not isinstance(given["v"], Coin):
            return self._refuse()
        return int(np.sum(~np.asarray(given["v"]._below(np.asarray(given["a"])))))


def _less(a, b):
    return b > a if isinstance(b, Coin) else a < b


def _greater(a, b):
    return b < a if isinstance(b, Coin) else a > b


_UFUNCS = {
    np.less: _less,
    np.less_equal: _less,
    np.greater: _greater,
    np.greater_equal: _greater,
    np.equal: lambda a, b: a is b,  # otherwise a set of measure zero
    np.not_equal: lambda a, b: a is not b,
    np.multiply: lambda a, b: b * a if isinstance(b, Coin) else a * b,
    np.add: lambda a, b: b + a if isinstance(b, Coin) else a + b,
    np.subtract: lambda a, b: -b + a if isinstance(b, Coin) else a - b,
}


class World:
    """One run: which side of every threshold each coin fell on, and what is still open."""

    def __init__(self, script: Sequence[int]):
        self._script = script
        self._taken: list[int] = []
        self._bounds: list[tuple] = []
        self.others: list[tuple[int, ...]] = []  # scripts of the worlds not taken

    def random(self) -> Coin:
        """A fresh coin, as a NumPy generator's ``random()`` gives a fresh uniform."""
        self._bounds.append((0, 1))
        return Coin(self, len(self._bounds) - 1)

    def settle(self, index: int, cuts: Sequence):
        """Decide between which two neighbouring ``cuts`` coin ``index`` lies; return the middle."""
        low, high = self._bounds[index]
        inner = [c for c in cuts if low + _sliver(c) < c < high - _sliver(c)]
        edges = [low, *inner, high]
        choice = 0
        if inner:
            depth = len(self._taken)
            if depth < len(self._script):
                choice = self._script[depth]
            else:
                self.others += [(*self._taken, k) for k in range(1, len(edges) - 1)]
            if choice >= len(edges) - 1:
                raise RuntimeError("the same u gave another result: draw all randomness from u")
            self._taken.append(choice)
        low, high = self._bounds[index] = (edges[choice], edges[choice + 1])
        return (low + high) / 2

    @property
    def weight(self):
        """The share of the unit cube that this world covers."""
        weight = 1
        for low, high in self._bounds:
            weight = weight * (high - low)
        return weight


def _sliver(cut) -> float:
    return SLIVER if isinstance(cut, float) else 0  # Fractions do not round


def law_of(run: Callable[[World], Hashable]) -> Law:
    """The law of ``run(coins)``, which draws uniforms by ``coins.random()`` and is otherwise pure.

    >>> law_of(lambda coins: bool(coins.random() < 0.25))
    {True: 0.25, False: 0.75}
    """
    law: Law = {}
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        world = World(scripts.pop())
        outcome = run(world)
        law[outcome] = law.get(outcome, 0) + world.weight
        scripts += world.others
    return law
