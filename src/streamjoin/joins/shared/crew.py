"""Threads that come and go, and work side by side until somebody wants quiet.

A worker is *inside* while it may be working on a task. Whoever needs the others out of the way asks
for `quiet`: workers finish their task, nobody begins another, and when the last one is out the
quiet begins. One condition wakes all who wait: for work, for room, for quiet.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock, Thread


class Crew:
    """Workers that share the work of one join.

    ``run`` is what each does, ``has_work`` whether there is anything to do, and ``halt`` tells
    those who are inside that somebody wants quiet, or no longer.
    """

    def __init__(
        self,
        run: Callable[[int], None],
        has_work: Callable[[], bool],
        halt: Callable[[bool], None],
    ) -> None:
        self.run, self.has_work, self.halt = run, has_work, halt
        self.changed = Condition()
        self.size = 0  # how many workers there should be
        self.failure: BaseException | None = None
        self.when_failed: Callable[[], None] | None = None
        self._inside = 0
        self._halts = False
        self._quieting = Lock()
        self._present: set[int] = set()  # workers that have not been told to leave
        self._threads: list[Thread] = []

    def resize(self, size: int) -> None:
        """Let workers join or leave; those that leave finish their task."""
        with self.changed:
            self.size = size
            self.changed.notify_all()
            self._threads = [each for each in self._threads if each.is_alive()]
            for number in set(range(size)) - self._present:
                name = f"streamjoin worker {number}"
                worker = Thread(target=self._work, args=(number,), name=name, daemon=True)
                self._present.add(number)
                self._threads.append(worker)
                worker.start()

    def _work(self, number: int) -> None:
        try:
            self.run(number)
        except BaseException as error:
            self.fail(error)

    def enter(self, number: int) -> bool:
        """Wait until there is work, and nobody wants quiet; return whether to go on at all."""
        with self.changed:
            while True:
                if number >= self.size or self.failure is not None:
                    self._present.discard(number)
                    return False
                if not self._halts and self.has_work():
                    self._inside += 1
                    return True
                self.changed.wait()

    def leave(self) -> None:
        """Note that a worker has finished its task."""
        with self.changed:
            self._inside -= 1
            self.changed.notify_all()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Let no worker work on anything, and begin when all have finished their task."""
        with self._quieting:
            with self.changed:
                self._halts = True
                self.halt(True)
                self.changed.wait_for(lambda: not self._inside or self.failure is not None)
                self.check()
            try:
                yield
            finally:
                with self.changed:
                    self._halts = False
                    self.halt(False)
                    self.changed.notify_all()

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; raise if the join cannot go on."""
        self.wait_until(is_so)
        self.check()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, or the join cannot go on."""
        with self.changed:
            self.changed.wait_for(lambda: is_so() or self.failure is not None)

    def rest(self, seconds: float) -> None:
        """Wait until anything changes, but not for long."""
        with self.changed:
            self.changed.wait(seconds)

    def wake(self) -> None:
        """Wake all who wait for a change."""
        with self.changed:
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Note why the join cannot go on, and wake all who wait for it."""
        with self.changed:
            self.failure = self.failure or error
            self.halt(True)
            self.changed.notify_all()
        if self.when_failed is not None:
            self.when_failed()

    def check(self) -> None:
        """Raise what has stopped the join, if anything has."""
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Let all workers leave, and wait for them."""
        with self.changed:
            self.size = 0
            self.halt(True)
            self.changed.notify_all()
        for worker in self._threads:
            worker.join()
