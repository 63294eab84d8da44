"""Runs workers, hears what they say, and replaces those that die or hang.

::

    Supervisor --- starts ---> worker 0: cases 0-99, 200-299, ...    a line of JSON per case
               <-- lines ----  worker 1: cases 100-199, 300-399, ...
                               exit?  a crash in the case begun last, then a new one behind it
                               silent for PATIENCE seconds?  a hang, likewise
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from .cases import BLOCK
from .running import BUGS

PATIENCE = 120.0  # seconds without a word after which a worker hangs
STARTING = 5  # times as long for its first case: kernels are compiled, Java starts
FINDINGS = (*BUGS, "crash", "hang", "broken", "disagreement")
Finding = dict[str, Any]
Lines = SimpleQueue[tuple["Worker", Finding | None]]


def worker_command(first: int, workers: int, oracle: str) -> list[str]:
    return [sys.executable, "-m", f"{__package__}.worker", str(first), str(workers), oracle]


class Worker:
    """A child process, and the case that it was at when it last said something."""

    def __init__(self, place: int, first: int, command: list[str], errors: Path, lines: Lines):
        self.place, self.number, self.heard = place, first, time.monotonic()
        self.errors, self.has_started = errors, False
        with errors.open("w") as file:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
        self.listener = Thread(target=self._listen, args=(lines,), daemon=True)
        self.listener.start()

    def _listen(self, lines: Lines) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as told:
            for line in told:
                lines.put((self, json.loads(line)))
        lines.put((self, None))

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()
        self.listener.join()


@dataclass
class Tally:
    """What has been found so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    matches: int = 0
    judged: int = 0
    unjudged: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.kinds.total()

    def add(self, message: Finding) -> None:
        """Count a case."""
        kind = message["kind"]
        self.kinds[kind] += 1
        if kind == "equal":
            self.matches += int(message["note"])
        elif kind == "refused":
            self.refusals[message["note"]] += 1
        if kind in FINDINGS:
            self.findings.append(message)


@dataclass
class Supervisor:
    """Runs cases from ``first`` on until there are enough of them or the time is over."""

    first: int
    workers: int
    oracle: str
    out: Path
    show: Callable[[Finding, float], None]  # called with each finding and the seconds until then
    patience: float = PATIENCE
    command: Callable[[int, int, str], list[str]] = worker_command
    tally: Tally = field(default_factory=Tally)

    def run(self, seconds: float, cases: int, tick: Callable[[float], None]) -> Tally:
        """Run; ``tick`` is called with the seconds spent, twice a second or more often."""
        self.out.mkdir(parents=True, exist_ok=True)
        self._lines: Lines = SimpleQueue()
        self._begun = time.monotonic()
        self._running = {place: self._start(place, self.first + place * BLOCK)
                         for place in range(self.workers)}  # fmt: skip
        try:
            while self._spent < seconds and not 0 < cases <= self.tally.cases:
                tick(self._spent)
                self._hear()
        finally:
            for worker in self._running.values():
                worker.stop()
        return self.tally

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._begun

    def _start(self, place: int, first: int) -> Worker:
        command = self.command(first, self.workers, self.oracle)
        return Worker(place, first, command, self.out / f"worker-{place}.log", self._lines)

    def _hear(self) -> None:
        """Take one message, or find that a worker hangs or has died."""
        try:
            worker, message = self._lines.get(timeout=0.5)
        except Empty:
            now = time.monotonic()
            for worker in [*self._running.values()]:
                if now - worker.heard > self.patience * (1 if worker.has_started else STARTING):
                    self._replace(worker, "hang")
            return
        if worker not in self._running.values():
            return  # its last words, after it was replaced
        worker.heard = time.monotonic()
        if message is None:
            self._replace(worker, "crash")
        elif "begins" in message:
            worker.number = message["begins"]
        elif "block" in message:
            self.tally.judged += message["judged"]
            self.tally.unjudged += message["unjudged"]
            for text in message["disagreements"]:
                number = message["block"] * BLOCK
                self._add({"number": number, "kind": "disagreement", "note": text})
        else:
            worker.has_started = True
            self._add(message)

    def _add(self, message: Finding) -> None:
        self.tally.add(message)
        if message["kind"] in FINDINGS:
            self.show(message, self._spent)

    def _replace(self, worker: Worker, kind: str) -> None:
        """Note what a worker died of, and start another behind the case it was at."""
        worker.stop()
        note = f"exit code {worker.process.returncode}\n{worker.errors.read_text()[-1500:]}"
        self._add({"number": worker.number, "kind": kind, "note": note})
        following = worker.number + 1
        if following % BLOCK == 0:
            following += BLOCK * (self.workers - 1)
        self._running[worker.place] = self._start(worker.place, following)
