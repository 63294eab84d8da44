"""``python -m tests.fuzz``: draws cases for a while and prints what streamjoin gets wrong.

python -m tests.fuzz --seconds 600 --seed 7     # cases from 7,000,000 on
python -m tests.fuzz --case 7000123             # one of them again, made small
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .cases import BLOCK, draw_block, draw_case
from .programs import write_program
from .running import run_case
from .shrinking import shrink
from .supervising import FINDINGS, Finding, Supervisor, Tally
from .worker import open_oracles

SEED = 1_000_000  # cases from one seed to the next


def fuzz(given: Namespace, console: Console) -> Tally:
    """Run cases, with a line on the terminal that says how it goes."""
    out = Path(given.out)

    def show(finding: Finding, seconds: float) -> None:
        number, kind = finding["number"], finding["kind"]
        name = f"--oracle {given.oracle} --case {number}"
        console.rule(f"[red]{kind}[/red] after {seconds:.0f} s: {name}")
        text = finding.get("program") or finding.get("note") or ""
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        if "program" in finding:
            (out / f"{kind}-{number}.py").write_text(finding["program"])
        with (out / "findings.jsonl").open("a") as file:
            file.write(json.dumps(finding | {"seconds": round(seconds, 1)}) + "\n")

    supervisor = Supervisor(given.seed * SEED, given.workers, given.oracle, out, show)
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=given.cases or given.seconds)

        def tick(seconds: float) -> None:
            tally = supervisor.tally
            kinds = " · ".join(f"{kind} {count:,}" for kind, count in tally.kinds.most_common())
            text = f"{tally.cases:,} cases, {tally.cases / max(seconds, 1):.0f} per second: {kinds}"
            done = tally.cases if given.cases else seconds
            progress.update(bar, completed=done, description=text)

        return supervisor.run(given.seconds, given.cases, tick)


def replay(given: Namespace, console: Console) -> bool:
    """Run one case again, and print it as a program; tell whether it fails."""
    case = draw_case(given.case, draw_block(given.case // BLOCK, open_oracles(given.oracle)))
    if case is None:
        console.print("the oracle can say nothing about this case")
        return False
    outcome = run_case(case)
    console.print(f"{case.on}\n{case.window} {case.call} {case.options}", markup=False)
    console.print(f"{outcome.kind}: {outcome.note}", markup=False)
    if outcome.is_bug:
        case, outcome = shrink(case, outcome)
    program = write_program(case, outcome)
    console.print(program, markup=False, highlight=False, soft_wrap=True)
    return outcome.is_bug


def report(tally: Tally, given: Namespace, console: Console) -> None:
    """Print what came of it all."""
    table = Table("outcome", "cases", title=f"{tally.cases:,} cases, seed {given.seed}")
    for kind, count in tally.kinds.most_common():
        table.add_row(kind, f"{count:,}")
    console.print(table)
    text = f"{tally.matches:,} matches; {tally.judged:,} conjuncts judged, {tally.unjudged:,} not"
    console.print(text)
    for note, count in tally.refusals.most_common(30):
        console.print(f"refused {count:,}: {note}", markup=False, highlight=False, soft_wrap=True)


def parse_arguments() -> Namespace:
    parser = ArgumentParser(
        "python -m tests.fuzz", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="where the numbers of cases begin")
    parser.add_argument("--cases", type=int, default=0, help="stop after so many")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    judges = "spark judges what it can and DuckDB the rest; where both can, they must agree"
    parser.add_argument("--oracle", choices=["duckdb", "spark"], default="duckdb", help=judges)
    parser.add_argument("--case", type=int, help="run this case only")
    parser.add_argument("--out", default="out/fuzz", help="folder for the programs of findings")
    return parser.parse_args()


def main() -> int:
    # A calibration of this machine would change what "auto" chooses.
    os.environ["STREAMJOIN_CALIBRATION"] = os.devnull + "-none"
    given, console = parse_arguments(), Console()
    if given.case is not None:
        return int(replay(given, console))
    tally = fuzz(given, console)
    report(tally, given, console)
    return int(any(tally.kinds[kind] for kind in FINDINGS))


if __name__ == "__main__":
    sys.exit(main())
