"""The benchmark's results on paper: a table for the terminal, one for the README, the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lessonlib.lab.bench_rows import explain_slow, is_slow
from lessonlib.lab.demo import show
from lessonlib.lab.device import count_physical_cores, count_usable_cpus

COLUMNS = (
    "proposer", "K (nodes)", "α", "α by position", "τ", "accepted / drafted / rounds",
    "c", "v", "loop", "predicted", "measured", "ms/token",
)  # fmt: skip
DETAILS = ("accepted / drafted / rounds", "ms/token")  # left out of a narrow terminal
ROOMY = 130  # columns of a terminal
WIDTHS = {"proposer": 12, "predicted": 9, "measured": 11}  # at least: a cut number is a wrong one
LEGEND = (
    "K: how deep a round drafts (and how many nodes a tree has), chosen in a short calibration "
    "unless --K says. α: mean of Σ min(p, q) over the tested tokens, in a tree over each sibling. "
    "α by position: of the rounds that had a token tested that deep, the share in which one "
    "passed. τ: tokens per target forward, all repeats together. c: one draft forward, v: "
    "verifying a whole round (a tree's nodes included), both in plain target forwards. loop: time "
    "outside all forwards. measured: speed over plain decoding, the median of the repeats' paired "
    "ratios (lowest to highest; each repeat has another prompt). predicted: τ / (c·K + v) of the "
    "median repeat."
)


def describe_machine(model) -> dict:
    """What the seconds depend on: processor, cores, threads, versions; nobody's names."""
    import torch

    gpu = torch.cuda.get_device_name() if model.device.type == "cuda" else None
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": _read_cpu(),
        "cores": count_physical_cores(),
        "usable cpus": count_usable_cpus(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "dtype": str(model.dtype).removeprefix("torch."),
        "load when it began": load,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("torch", "numpy", "transformers")},
    }


def _read_cpu() -> str:
    """The processor's name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return platform.processor() or platform.machine()


def write_row(row: dict) -> dict[str, str]:
    """A row's cells by column; a dash where there is nothing to tell.

    >>> row = {"proposer": "x", "tau": 1.0, "loop": None, "ms_per_token": 2.0}
    >>> write_row(row | {"speedup": {"median": 1.5, "low": 1.25, "high": 2.0}})["measured"]
    '1.50 (1.25–2.00)'
    """
    speed = row["speedup"]
    measured = f"{speed['median']:.2f} ({speed['low']:.2f}–{speed['high']:.2f})"
    cells = {"proposer": row["proposer"], "τ": f"{row['tau']:.2f}", "measured": measured}
    cells["ms/token"] = f"{row['ms_per_token']:.1f}"
    cells["loop"] = "-" if row["loop"] is None else f"{row['loop']:.0%}"
    if "c" in row:
        nodes = f" ({row['nodes']})" if row["nodes"] else ""
        shares = zip(row["passed"], row["reached"], strict=True)
        rates = [f"{passed / reached:.2f}".removeprefix("0") for passed, reached in shares]
        counts = f"{row['accepted']} / {row['drafted']} / {row['rounds']}"
        cells |= {"K (nodes)": f"{row['K']}{nodes}", "α by position": " ".join(rates) or "-"}
        cells |= {"α": _show(row["alpha"]), "accepted / drafted / rounds": counts}
        cells |= {name: f"{row[name]:.2f}" for name in ("c", "v")}
        cells["predicted"] = f"{row['middle']['predicted']:.2f}"
    return {name: cells.get(name, "-") for name in COLUMNS}


def _show(value: float | None) -> str:
    return show(float("nan") if value is None else value, 2)


def print_results(results: dict, console: Console) -> None:
    """Every cell as a table, with the reason below it for whoever lost to plain decoding."""
    for cell in results["cells"]:
        title = f"{cell['text']}, T = {cell['T']:g}, {cell['repeats']} repeats"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
        names = [name for name in COLUMNS if name not in DETAILS or console.width >= ROOMY]
        for name in names:
            justify = "left" if name in COLUMNS[:4] else "right"
            head = name.replace(" (", "\n(")
            table.add_column(head, justify=justify, min_width=WIDTHS.get(name))
        for row in cell["rows"]:
            written = write_row(row)
            style = "yellow" if is_slow(row) else ""
            table.add_row(*(written[name] for name in names), style=style)
        console.print(table)
        for reason in filter(None, map(explain_slow, cell["rows"])):
            console.print(f"  {reason}", highlight=False, soft_wrap=True)
    console.print(LEGEND, highlight=False)


def write_markdown(results: dict) -> str:
    """The README's part: how it was measured, a table for each text, who lost and why."""
    machine, parts = results["machine"], []
    parts.append(
        f"`{results['command']}` on {machine['gpu'] or machine['cpu']} ({machine['cores']} cores, "
        f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}), Python "
        f"{machine['python']}, PyTorch {machine['torch']}, transformers {machine['transformers']}; "
        f"{results['tokens']} tokens a turn{_tell_load(machine)}."
    )
    parts.append(LEGEND)
    for text in dict.fromkeys(cell["text"] for cell in results["cells"]):
        cells = [cell for cell in results["cells"] if cell["text"] == text]
        parts += [f"<details{' open' * (text == 'code')}>\n<summary>{text}</summary>"]
        parts += [_write_table(cells), _write_reasons(cells), "</details>"]
    return "\n\n".join(filter(None, parts))


def _tell_load(machine: dict) -> str:
    """What else the machine did: seconds of a busy one are worth less."""
    load = machine["load when it began"]
    return "" if load is None else f"; load average when it began {load:.1f}"


def _write_table(cells: list[dict]) -> str:
    names = [name for name in COLUMNS if name != "ms/token"]  # a machine's, not the method's
    lines = [["T", *names], ["---"] * (len(names) + 1)]
    for cell in cells:
        for row in cell["rows"]:
            written = write_row(row)
            lines.append([f"{cell['T']:g}", *(written[name] for name in names)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write_reasons(cells: list[dict]) -> str:
    """A line for each loss, with its temperature."""
    reasons = [(cell["T"], explain_slow(row)) for cell in cells for row in cell["rows"]]
    return "\n".join(f"* T = {T:g}: {reason}" for T, reason in reasons if reason)
