"""Threads that come and go, and work in parallel until one of them needs quiet.

A worker is *inside* while it may be working on a task. A thread that needs the others out of the
way asks for `quiet`: workers finish their task and begin no other, and quiet begins when the last
one is out. One condition wakes all waiting threads: for work, for room, for quiet.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock, Thread


class Crew:
    """Workers that share the work of one join.

    ``run`` is what each worker runs, ``has_work`` says whether there is anything to do, and
    ``halt`` tells the workers inside that a thread wants quiet, or no longer wants it.
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
        """Change the number of workers; those that leave finish their task."""
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
        """Wait until there is work and no request for quiet; return whether to go on at all."""
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
        """Keep all workers out of tasks; starts once they have finished their present ones."""
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
        """Wait until a condition holds; raise if the join cannot go on."""
        self.wait_until(is_so)
        self.check()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition holds, or the join cannot go on."""
        with self.changed:
            self.changed.wait_for(lambda: is_so() or self.failure is not None)

    def rest(self, seconds: float) -> None:
        """Wait until anything changes, for at most ``seconds``."""
        with self.changed:
            self.changed.wait(seconds)

    def wake(self) -> None:
        """Wake all threads that wait for a change."""
        with self.changed:
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Note why the join cannot go on, and wake all waiting threads."""
        with self.changed:
            self.failure = self.failure or error
            self.halt(True)
            self.changed.notify_all()
        if self.when_failed is not None:
            self.when_failed()

    def check(self) -> None:
        """Raise the error that has stopped the join, if any."""
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Make all workers leave, and wait for them."""
        with self.changed:
            self.size = 0
            self.halt(True)
            self.changed.notify_all()
        for worker in self._threads:
            worker.join()
