"""The live streams of the Spark demo: files that appear at a steady pace.

Each batch is written under a hidden name and renamed, so Spark never sees half a file::

    left/.00007.parquet  ->  left/00007.parquet
"""

import threading
import time
from pathlib import Path

from pyarrow import parquet

from streamjoin.cli.demo.scenario import Pace, Scenario


class Inbox:
    """The two folders that a join reads, and when each pair of files was put there."""

    def __init__(self, scenario: Scenario, pace: Pace, seed: int, folder: Path) -> None:
        self.scenario, self.pace, self.folder = scenario, pace, folder
        self.folders = (folder / "left", folder / "right")
        self.put_at: list[float] = []
        self._batches = scenario.generate(pace, seed)
        for each in self.folders:
            each.mkdir(parents=True)

    def put(self) -> None:
        """Add the next batch of both streams."""
        name = f"{len(self.put_at):05}.parquet"
        for folder, rows in zip(self.folders, next(self._batches), strict=True):
            parquet.write_table(rows, folder / f".{name}")
            (folder / f".{name}").rename(folder / name)
        self.put_at.append(time.time())


class Feeder(threading.Thread):
    """Fills inboxes at a steady pace, until each has ``batches`` batches."""

    def __init__(self, inboxes: list[Inbox], seconds: float, batches: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.inboxes, self.seconds, self.batches = inboxes, seconds, batches
        self._error: Exception | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        """Put batch after batch, each at its time."""
        due = time.perf_counter()
        try:
            while any(len(inbox.put_at) < self.batches for inbox in self.inboxes):
                due += self.seconds
                if self._stopped.wait(max(0.0, due - time.perf_counter())):
                    return
                for inbox in self.inboxes:
                    inbox.put()
        except Exception as error:
            self._error = error

    def check(self) -> None:
        """Raise what went wrong in the thread, such as a full disk."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop now, even if there is more to feed."""
        self._stopped.set()
        if self.is_alive():
            self.join()
