"""One benchmark: set up, calibrate, play every cell, and keep what has been measured so far."""

from __future__ import annotations

import argparse

from tqdm import tqdm

from lessonlib.decoding.sampling import Sampling
from lessonlib.lab import pairs
from lessonlib.lab.bench_cells import Cell, cut_prompts, describe_cell
from lessonlib.lab.bench_report import describe_machine
from lessonlib.lab.bench_rows import FIRST_ROUND
from lessonlib.lab.calibration import calibrate
from lessonlib.lab.fingerprint import take_fingerprint
from lessonlib.lab.kinds import list_kinds
from lessonlib.lab.proposers import list_missing, list_proposers
from lessonlib.lab.race import Entrant, list_entrants, race
from lessonlib.lab.timing import read_clock

TEMPERATURES = (0.0, 0.7, 1.0)
QUICK_TEXTS = ("code",)
PROMPT_TOKENS = 160


class Bench:
    """A benchmark as asked for by ``options`` (`bench._parse`), and what it has measured so far."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.cells: list[Cell] = []
        self.costs: dict = {}
        self.machine: dict = {}
        self.notes: list[str] = []

    def run(self) -> None:
        """Load, calibrate, play every cell. Raises ValueError and FileNotFoundError."""
        pair = pairs.load_pair(self.options.pair)
        target, tokens = pair.target, self.options.tokens
        self.machine = describe_machine(target)
        proposers, self.notes = list_proposers(pair), list_missing(pair)
        prompts, early = self._cut_prompts(pair)
        rivals = self._load_rivals(pair)
        # On a pipe the bar would be noise in somebody's log.
        with tqdm(unit="turn", disable=None, leave=False) as bar:
            turns = self.options.repeats * (1 + len(proposers) + len(rivals))
            bar.total = len(TEMPERATURES) * (1 + len(proposers) + len(prompts) * turns) + 1
            bar.set_description("calibration")
            K = self.options.K
            self.costs = calibrate(target, proposers, early, TEMPERATURES, K, bar.update)
            sizes = {name: costs.size for name, costs in self.costs.items()}
            entrants = list_entrants(target, proposers, sizes, tokens)
            entrants |= {name: _enter_rival(rival, tokens) for name, rival in rivals.items()}
            for text in prompts:
                for T in TEMPERATURES:
                    bar.set_description(f"{text}, T = {T:g}")
                    self.cells.append(Cell(text, T))
                    turns = self.cells[-1].turns
                    race(entrants, prompts[text], Sampling(T), bar.update, turns)

    def _cut_prompts(self, pair: pairs.Pair) -> tuple[dict[str, list[list[int]]], list[int]]:
        """The prompts of every text, and one from further up in the code to calibrate on."""
        tokens, K, context = self.options.tokens, self.options.K, pair.target.context
        room = context - tokens - FIRST_ROUND
        if room < 1:
            raise ValueError(
                f"tokens is {tokens}: the target's context of {context} has room for at most "
                f"{context - FIRST_ROUND - 1} behind a prompt"
            )
        if K and tokens <= K:
            raise ValueError(f"K is {K}: use less than the {tokens} tokens that a turn emits")
        most = min(PROMPT_TOKENS, room)
        texts = {text: pair.encode(content) for text, content in list_kinds().items()}
        wanted = QUICK_TEXTS if self.options.quick else tuple(texts)
        prompts = {text: cut_prompts(texts[text], self.options.repeats, most) for text in wanted}
        return prompts, texts["code"][: len(texts["code"]) // 3][-most:]

    def _load_rivals(self, pair: pairs.Pair) -> dict:
        """``transformers`` with the same weights; without it the rest is still worth running."""
        try:
            from lessonlib.lab.hf_rivals import load_rivals

            return load_rivals(*pairs.find_folders(pair.name), like=pair.target)
        except (ImportError, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            self.notes.append(f"transformers cannot run this pair and is left out ({reason})")
            return {}

    def collect(self, interrupted: bool = False) -> dict:
        """All that was measured, as plain data for JSON."""
        return {
            "machine": self.machine,
            "weights": take_fingerprint(pairs.find_home(self.options.pair)),
            "tokens": self.options.tokens,
            "interrupted": interrupted,
            "notes": self.notes,
            "cells": [describe_cell(cell, self.costs) for cell in self.cells if cell.turns],
        }


def _enter_rival(rival, tokens: int) -> Entrant:
    return lambda prompt, sampling, seed: rival(prompt, tokens, sampling, seed, read_clock)
