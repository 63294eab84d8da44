"""A process that is forked: the child goes on with its copy, or says why not, and never hangs."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

BEGIN = """
import os, sys, threading, time, signal
import pyarrow as pa, streamjoin as sj
COUNT = sj.CountWindow(100_000)

def numbers(*values):
    return pa.table({"x": pa.array(values, pa.int64()), "t": pa.array(values, pa.int64())})

def make(**options):
    window = options.pop("window", COUNT)
    time = {} if window is COUNT else {"time": "t"}
    return sj.StreamJoin("l.x = r.x", window, **time, **options)

def fork(act):
    # The child tells by its exit code whether it did what it should, within half a minute.
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"

def refuses(call):
    try:
        call()
    except sj.StreamJoinError as error:
        assert "forked" in str(error) and "snapshot()" in str(error), error
    else:
        raise AssertionError("not refused")
"""


def run(code):
    path = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


def run_for(kinds, code):
    """Run code in one process for joins of several kinds, as ``join``."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    run("".join(f"if True:  # {kind}\n    join = make({kind})\n{body}\n" for kind in kinds))


KINDS = [
    "threads=2",
    "threads=2, algorithm='pim_tree'",
    "threads=2, batch_rows=1000",
    "threads=2, window=sj.TumblingWindow('1 day'), algorithm='shj_jm'",
    "threads=2, window=sj.SessionWindow('1 day'), emit='eager'",
    "cores=2",
    "cores=2, ordered='outer'",
]


def test_a_join_before_its_first_push_works_in_the_child():
    run_for(
        KINDS,
        """
        def use():
            rows = numbers(*range(9000))
            assert join.push(rows, rows.slice(0)).num_rows + join.flush().num_rows == 9000
        fork(use)
        use()
        """,
    )


def test_a_join_goes_on_in_the_child():
    run_for(
        [each for each in KINDS if "cores" not in each],
        """
        rows = numbers(*range(9000))
        join.push(rows, rows.slice(0))
        join.flush()
        def use():
            assert join.push(left=rows).num_rows + join.flush().num_rows == 9000
            assert join.find(right=rows).count() == 18000
            assert sj.StreamJoin.restore(join.snapshot()).stats.rows_left == 18000
            list(join.stream([(rows, None)]))
        fork(use)
        fork(use)
        use()
        """,
    )


@pytest.mark.parametrize("options", [each for each in KINDS if "cores" in each])
def test_join_cores_are_refused_in_the_child_and_go_on_in_the_parent(options):
    # Once: the child waited for ever for the threads of its parent.
    run(f"""
        join = make({options})
        rows = numbers(*range(9000))
        join.push(rows, rows.slice(0))
        saved = join.snapshot()
        def use():
            global join
            refuses(lambda: join.push(left=rows))
            refuses(lambda: join.find(left=rows))
            refuses(lambda: join.stats)
            refuses(lambda: join.snapshot())
            refuses(lambda: list(join.stream([(rows, None)])))
            again = sj.StreamJoin.restore(saved)
            assert again.push(left=rows).num_rows == 9000
            del join, again  # nor does its end wait for anybody
        join.push(left=rows.slice(0, 0))
        fork(use)
        assert join.push(left=rows).num_rows == 9000
    """)


@pytest.mark.parametrize("options", ["cores=2", "threads=2, algorithm='pim_tree'"])
def test_a_source_that_is_being_read_is_refused_in_the_child(options):
    run(f"""
        join = make({options})
        join.push(numbers(1), numbers(1))
        def source():
            for number in range(2, 200):
                yield numbers(number), numbers(number)
        stream = join.stream(source())
        next(stream)
        def use():
            refuses(lambda: join.push(left=numbers(1)))
            refuses(lambda: next(stream))
            stream.close()
            refuses(lambda: join.stats)
        fork(use)
        assert sum(part.rows.num_rows for part in stream) == 197
    """)


def test_a_join_that_another_thread_is_using_is_refused_in_the_child():
    run("""
        join, others = make(), make()
        join.push(numbers(1), numbers(1))
        others.push(numbers(1), numbers(1))
        inside, may_go_on = threading.Event(), threading.Event()
        class Slow:
            def __arrow_c_stream__(self, requested_schema=None):
                inside.set()
                may_go_on.wait()
                return numbers(1).__arrow_c_stream__(requested_schema)
        thread = threading.Thread(target=lambda: join.push(left=Slow()))
        thread.start()
        inside.wait()
        def use():
            refuses(lambda: join.push(left=numbers(1)))
            refuses(lambda: join.stats)
            assert others.push(left=numbers(1)).num_rows == 1
        fork(use)
        may_go_on.set()
        thread.join()
        assert join.push(right=numbers(1)).num_rows == 2
    """)


def test_threads_that_help_are_made_anew_in_the_child():
    run("""
        from streamjoin.kernels.threads import helpers, share
        meeting = threading.Barrier(2)
        share(lambda each: meeting.wait(20), range(2), 2)  # fails unless two threads work
        before = helpers()
        def use():
            assert helpers() is not before
            share(lambda each: meeting.wait(20), range(2), 2)
        meeting = threading.Barrier(2)
        fork(use)
    """)


def test_a_merge_that_another_thread_does_is_forgotten_in_the_child():
    run("""
        import numpy as np
        from concurrent.futures import Future
        from streamjoin.indexes.two_keys.spo_join import SPOJoin
        index = SPOJoin(threads=2)
        def add(first):
            rows = np.arange(first, first + 100, dtype=np.int32)
            index.insert((rows.astype(np.int64), rows), (rows.astype(np.int64), rows))
        add(0)
        add(100)
        never = Future()
        never.set_running_or_notify_cancel()
        add(200)
        index.merging = list(index.parts[-1:]), never
        index._process = os.getpid()
        def use():
            index.seal()
            assert len(index) == 300
            index.check()
        fork(use)
    """)


def test_a_fork_waits_for_what_is_being_compiled():
    run("""
        from numba.core.compiler_lock import global_compiler_lock
        from streamjoin.keys.radix_sort import sort_with_rows
        import numpy as np
        compiling = threading.Event()
        def compile():
            with global_compiler_lock:
                compiling.set()
                time.sleep(0.5)
        thread = threading.Thread(target=compile)
        thread.start()
        compiling.wait()
        fork(lambda: global_compiler_lock.acquire())
        thread.join()
        fork(lambda: sort_with_rows(np.array([3, 1])))
    """)


def test_children_of_multiprocessing():
    run("""
        import multiprocessing
        join = make(cores=2)
        rows = numbers(*range(5000))
        join.push(rows, rows.slice(0))
        def use(number):
            return sj.join_tables(rows, rows, on="l.x = r.x", threads=2).num_rows
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(use, range(4)) == [5000] * 4
        assert join.push(left=rows).num_rows == 5000
    """)
