"""Wrappers around a drafter: one that knows when to be silent, one that forgets its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lessonlib.decoding.loop import Drafter
from lessonlib.decoding.steps import Run
from lessonlib.theory.controller import PLAIN, Gate, Settings, step_gate
from lessonlib.theory.trees import CHOSEN, Proposal, chain


class GatedDrafter:
    """Proposes what ``drafter`` does, or nothing while the gate is in mode "plain".

    ``gate`` is the state to start from, ``modes`` lists the mode of every round asked for.
    Whether to draft depends on earlier rounds only, so the law of the text stays p's.
    """

    def __init__(self, drafter: Drafter, settings: Settings, gate: Gate | None = None):
        self.drafter, self.settings = drafter, settings
        self.gate = Gate() if gate is None else gate
        self.vocab_size = drafter.vocab_size
        self.modes: list[str] = []
        self._asked_at: int | None = None  # length of the text at the round's start

    @property
    def rows(self) -> int:
        """How many tokens the inner draft's cache holds."""
        return self.drafter.rows

    def propose(
        self, text: Sequence[int], K: int, coins: Iterator[float]
    ) -> Proposal | Run[Proposal]:
        """The inner proposal, or an empty one; a silent drafter runs no model at all."""
        self._asked_at = len(text)
        self.modes.append(self.gate.mode)
        if self.gate.mode == PLAIN:
            return chain([], [])
        return self.drafter.propose(text, K, coins)

    def settle(self, text: Sequence[int], seen) -> None:
        """Tell the inner drafter, and move the gate by what the round emitted."""
        self.drafter.settle(text, seen)
        if self._asked_at is not None:  # not after the prefill, and not where no draft had room
            self.gate = step_gate(self.gate, len(text) - self._asked_at, self.settings)
            self._asked_at = None


class RowlessDrafter:
    """Draws its tokens but hands over no q row: the target can only test for a match.

    A token without a row counts as chosen, and is kept with probability p(x). It was drawn
    from q, so over all draws Σ p q pass: the exact-match rule. The law stays p's.
    """

    def __init__(self, drafter: Drafter):
        self.drafter, self.vocab_size = drafter, drafter.vocab_size

    @property
    def rows(self) -> int:
        """How many tokens the inner draft's cache holds."""
        return self.drafter.rows

    def propose(self, text: Sequence[int], K: int, coins: Iterator[float]) -> Run[Proposal]:
        """The inner proposal without its rows."""
        proposal = self.drafter.propose(text, K, coins)
        if not isinstance(proposal, Proposal):
            proposal = yield from proposal
        return Proposal(proposal.tokens, proposal.parents, (CHOSEN,) * len(proposal.tokens))

    def settle(self, text: Sequence[int], seen) -> None:
        """Tell the inner drafter."""
        self.drafter.settle(text, seen)
