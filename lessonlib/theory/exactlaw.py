"""The exact law of any procedure that takes its randomness as uniforms.

A ``Coin`` stands for a uniform on [0, 1) that has not been tossed. Comparing it with
a threshold splits the world in two; ``law_of`` visits every world by running the
procedure again and adds up how much of the unit cube leads to each outcome. Nothing
is sampled: in float64 the result is right to rounding, on Fractions it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from lessonlib.theory.rejection import draw

Law = dict[Hashable, float]
Row = Callable[[tuple[int, ...]], np.ndarray]  # context -> distribution of the next token


class Coin:
    """An untossed uniform, possibly scaled and shifted; it knows how to be compared.

    Works with ``<``, ``<=``, ``>``, ``>=`` against numbers and arrays, with
    ``np.searchsorted`` and ``bisect``, and with ``a * u + b``. Anything that needs one
    definite number raises TypeError.
    """

    __array_ufunc__ = None  # NumPy then leaves comparisons with arrays to us

    def __init__(self, world: World, index: int, scale=1, shift=0):
        self._world, self._index, self._scale, self._shift = world, index, scale, shift

    def _below(self, threshold):
        """Is this coin's value below ``threshold`` (a number or an array of them)?"""
        if isinstance(threshold, Coin):
            raise TypeError("compare a uniform with a probability, not with another uniform")
        cuts = (np.asarray(threshold) - self._shift) / self._scale
        lower = self._world.settle(self._index, np.unique(cuts).tolist())  # u lies just above it
        below = cuts > lower if self._scale > 0 else cuts <= lower
        return below if np.ndim(threshold) else bool(below)

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

    def __float__(self):
        raise TypeError("a uniform can only be compared with a threshold or given to draw()")

    def __array_function__(self, function, types, args, kwargs):
        if function is np.searchsorted and args[1] is self:
            return int(np.sum(~np.asarray(self._below(np.asarray(args[0])))))
        return NotImplemented


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
        """Decide between which two neighbouring ``cuts`` coin ``index`` lies; return the lower."""
        low, high = self._bounds[index]
        edges = [low, *(cut for cut in cuts if low < cut < high), high]
        choice = 0
        if len(edges) > 2:
            depth = len(self._taken)
            if depth < len(self._script):
                choice = self._script[depth]
            else:
                self.others += [(*self._taken, k) for k in range(1, len(edges) - 1)]
            self._taken.append(choice)
        self._bounds[index] = (edges[choice], edges[choice + 1])
        return edges[choice]

    @property
    def weight(self):
        """The share of the unit cube that this world covers."""
        weight = 1
        for low, high in self._bounds:
            weight = weight * (high - low)
        return weight


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


def target_law(p_of: Row, length: int, context: tuple[int, ...] = ()) -> Law:
    """The target's own joint law of the next ``length`` tokens: the product of its rows."""
    law: Law = {(): 1}
    for _ in range(length):
        law = {
            (*tokens, x): weight * chance
            for tokens, weight in law.items()
            for x, chance in enumerate(p_of((*context, *tokens)))
            if chance > 0
        }
    return law


def round_law(round_of: Callable, p_of: Row, q_of: Row, K: int) -> Law:
    """The law of what one round emits (a tuple of 1 to K + 1 tokens), drafting included.

    ``round_of(p_rows, q_rows, drafted, u)`` is an implementation as in
    ``verify.speculative_round``: a learner's, a mutant's, or ours.
    """

    def run(coins: World) -> tuple[int, ...]:
        drafted: list[int] = []
        for _ in range(K):
            drafted.append(draw(q_of(tuple(drafted)), coins.random()))
        prefixes = [tuple(drafted[:j]) for j in range(K + 1)]
        p_rows = np.array([p_of(prefix) for prefix in prefixes])
        q_rows = np.array([q_of(prefix) for prefix in prefixes[:K]])
        u = [coins.random() for _ in range(K + 1)]
        return tuple(int(x) for x in round_of(p_rows, q_rows, drafted, u))

    return law_of(run)


def complete_law(law: Law, p_of: Row, length: int) -> Law:
    """Fill every outcome up to ``length`` tokens from the target itself.

    A round emits between 1 and K + 1 tokens; filled up to K + 1 they have a joint law
    that must equal ``target_law``. First-token tests miss half of the known mistakes.
    """
    filled: Law = {}
    for tokens, weight in law.items():
        for rest, chance in target_law(p_of, length - len(tokens), tokens).items():
            key = (*tokens, *rest)
            filled[key] = filled.get(key, 0) + weight * chance
    return filled


def total_variation(first: Law, second: Law) -> float:
    """TV distance of two laws: half the sum of absolute differences.

    >>> total_variation({"a": 1.0}, {"a": 0.75, "b": 0.25})
    0.25
    """
    return sum(abs(first.get(x, 0) - second.get(x, 0)) for x in {*first, *second}) / 2
