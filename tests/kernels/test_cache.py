"""Where compiled kernels are kept if the package and the home folder cannot be written to."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamjoin

SOURCE = Path(streamjoin.__file__).parent
CODE = """
import numpy as np
import streamjoin.api.stream_join
from streamjoin.joins.sliding.whole_window import count_leading
assert count_leading(np.array([1, 2, 5, 1]), 3) == 2
print(count_leading.stats.cache_path)
print(sum(count_leading.stats.cache_hits.values()))
"""
NOWHERE = "/dev/null"  # a folder that not even root can make anything in


@pytest.fixture
def package(tmp_path):
    """A copy of the package that nothing can be written to, not even by root."""
    home = tmp_path / "package"
    shutil.copytree(SOURCE, home / "streamjoin", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [home, *(each for each in home.rglob("*") if each.is_dir())]:
        (folder / "__pycache__").touch()
    return home


@pytest.fixture
def temporary(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def run(package, temporary, **settings):
    """Import all kernels and call one; return where it is cached, and whether it was."""
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "SPARK_LOCAL_DIRS", "LOCAL_DIRS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    path = [str(package), *(each for each in sys.path if each and Path(each) != SOURCE.parent)]
    settings = {"HOME": NOWHERE, "TMPDIR": str(temporary), **settings}
    ended = subprocess.run(
        [sys.executable, "-c", CODE],
        env=kept | settings | {"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=temporary,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    where, hits = ended.stdout.split()
    return where, int(hits)


def files_in(folder):
    return sorted(each.name for each in folder.rglob("*.nb?"))


def private_in(folder):
    return folder / f"streamjoin-kernels-{os.getuid()}"


def zipped(package):
    """Return the package as Spark ships it with --py-files."""
    for each in package.rglob("__pycache__"):
        each.unlink()
    return Path(shutil.make_archive(str(package.parent / "package"), "zip", package))


@pytest.mark.parametrize("is_zipped", [False, True])
def test_kernels_are_kept_in_a_private_folder(package, temporary, is_zipped):
    # Once: RuntimeError at import, or PermissionError at the first push.
    if is_zipped:
        package = zipped(package)
    where, hits = run(package, temporary)
    folder = private_in(temporary)
    assert Path(where).is_relative_to(folder)
    assert (folder.stat().st_mode & 0o777, hits) == (0o700, 0)
    assert files_in(folder)
    assert run(package, temporary) == (where, 1)


def test_local_folders_of_spark_come_first(package, temporary, tmp_path):
    local = tmp_path / "local"
    local.mkdir()
    where, _ = run(package, temporary, SPARK_LOCAL_DIRS=f"{NOWHERE},{local}")
    assert Path(where).is_relative_to(private_in(local))
    assert not list(temporary.iterdir())


def open_to_all(folder):
    folder.mkdir()
    folder.chmod(0o777)


def link_elsewhere(folder):
    other = folder.parent / "other"
    other.mkdir(mode=0o700)
    folder.symlink_to(other)


def in_an_open_folder(folder):
    folder.mkdir(mode=0o700)
    folder.parent.chmod(0o777)  # without the sticky bit anybody may put another in its place


@pytest.mark.parametrize("prepare", [open_to_all, link_elsewhere, in_an_open_folder, Path.touch])
def test_a_folder_that_others_may_write_to_is_not_used(package, temporary, prepare):
    # What is cached are pickles: who writes them can run code.
    prepare(private_in(temporary))
    assert run(package, temporary) == ("None", 0)
    assert not files_in(temporary)


def test_the_user_says_where(package, temporary, tmp_path):
    chosen = tmp_path / "chosen"
    where, _ = run(package, temporary, NUMBA_CACHE_DIR=str(chosen))
    assert Path(where).is_relative_to(chosen)
    assert not list(temporary.iterdir())


def test_a_kernel_that_cannot_be_saved_is_called_all_the_same():
    from streamjoin.kernels.compile import kernel

    def double(number):
        return 2 * number

    doubled = kernel(double)

    def fail(*_):
        raise OSError(28, "No space left on device")

    doubled._cache._save_overload = fail
    assert doubled(4) == 8


INNER = """
from streamjoin.kernels.compile import kernel
FACTOR = {factor}
@kernel
def scale(number):
    return number {sign} FACTOR
"""
OUTER = """
import {package}.inner as inner
from {package}.inner import scale
from streamjoin.kernels.compile import kernel
@kernel
def directly(number):
    return scale(number)
@kernel
def by_its_module(number):
    return inner.scale(number)
print(directly(10), by_its_module(10))
print(sum(each.stats.cache_hits.total() for each in (directly, by_its_module)))
"""


def run_package(folder, factor, sign="*"):
    """Write two modules whose files look alike to Numba, whatever is in them, and run them."""
    home = folder / "calls"
    home.mkdir(exist_ok=True)
    texts = {"__init__": "", "inner": INNER.format(factor=factor, sign=sign)}
    texts["outer"] = OUTER.format(package=home.name)
    for name, text in texts.items():
        (home / f"{name}.py").write_text(text)
        os.utime(home / f"{name}.py", (1, 1))
    ended = subprocess.run(
        [sys.executable, "-B", "-c", "import calls.outer"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    results, hits = ended.stdout.splitlines()
    return results, int(hits)


def test_a_kernel_is_compiled_again_if_what_it_calls_has_changed(tmp_path):
    # Once: the cache went by the kernel's own file, so a new version ran code of the old one.
    assert run_package(tmp_path, 2) == ("20 20", 0)
    assert run_package(tmp_path, 2) == ("20 20", 2)
    assert run_package(tmp_path, 3) == ("30 30", 0)
    assert run_package(tmp_path, 3, "+") == ("13 13", 0)
    assert run_package(tmp_path, 3, "+") == ("13 13", 2)


def test_a_cache_that_cannot_be_read_is_written_again(tmp_path):
    # Once: ModuleNotFoundError, after an upgrade that had moved a type which a kernel takes.
    import numba

    assert run_package(tmp_path, 2) == ("20 20", 0)
    for index in tmp_path.rglob("*.nbi"):
        moved = b"cno_such_module\nNoSuchType\n."
        index.write_bytes(pickle.dumps(numba.__version__) + moved)
    assert run_package(tmp_path, 2) == ("20 20", 0)
    for compiled in tmp_path.rglob("*.nbc"):
        compiled.write_bytes(b"damaged")
    assert run_package(tmp_path, 2) == ("20 20", 0)
    assert run_package(tmp_path, 2) == ("20 20", 2)
