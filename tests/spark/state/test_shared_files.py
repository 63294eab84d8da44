"""Files that workers share: nobody else sees them, and no error of a disk reaches a task."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from streamjoin import TimeWindow
from streamjoin.spark.routing import hints
from streamjoin.spark.routing.table import RoutingTable
from streamjoin.spark.state import shared_files
from streamjoin.spark.state.store import SparkStore
from streamjoin.spark.tasks import Moment
from tests.spark.cores.test_join_core import TIMED, plain
from tests.spark.in_process import Cluster, make_join

MOMENT = Moment("query", "run", 5)


@pytest.fixture(autouse=True)
def local(monkeypatch, tmp_path):
    """The folder that Spark names, and no sweep left over from before."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'one'},{tmp_path / 'two'}")
    monkeypatch.setattr(shared_files, "_swept", -1e9)
    (tmp_path / "one").mkdir()
    return tmp_path / "one"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_files_are_for_this_user_only(local):
    path = shared_files.open_folder("run", "core")
    assert path == local / "streamjoin" / "run" / "core"
    shared_files.write_file(path / "file", b"rows")
    assert shared_files.read_file(path / "file") == b"rows"
    assert [mode(each) for each in (path, path.parent, path.parent.parent)] == [0o700] * 3
    assert mode(path / "file") == 0o600
    assert [each.name for each in path.iterdir()] == ["file"]


def test_without_a_folder_of_spark_nothing_is_shared(monkeypatch, tmp_path):
    for value in (None, "", str(tmp_path / "missing")):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", value or "")
        if value is None:
            monkeypatch.delenv("SPARK_LOCAL_DIRS")
        assert shared_files.open_folder("run") is None
        hints.publish(MOMENT, "join", RoutingTable.split(2))
        assert hints.find(MOMENT, "join") is None
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("place", ["streamjoin", "streamjoin/run"])
def test_links_and_folders_of_others_are_not_used(place, local, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (local / place).parent.mkdir(mode=0o700, exist_ok=True)
    (local / place).symlink_to(elsewhere, target_is_directory=True)
    assert shared_files.open_folder("run") is None
    (local / place).unlink()
    (local / place).mkdir(mode=0o700)
    assert shared_files.open_folder("run") is not None
    (local / place).chmod(0o777)
    assert shared_files.open_folder("run") is None
    (local / place).rmdir() if place != "streamjoin" else None
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_way_is_not_used(local):
    (local / "streamjoin").write_text("")
    assert shared_files.open_folder("run") is None


def full(*_):
    raise OSError(errno.ENOSPC, "no space left on device")


def test_a_full_disk_leaves_no_draft(monkeypatch):
    path = shared_files.open_folder("run")
    monkeypatch.setattr(Path, "replace", full)
    shared_files.write_file(path / "file", b"rows")
    assert list(path.iterdir()) == []


class Handle:
    """Spark's state of one core."""

    def __init__(self):
        self.values = {}

    def getValueState(self, *_):  # noqa: N802
        return self

    def getMapState(self, *_):  # noqa: N802
        return self

    def updateValue(self, key, value):  # noqa: N802
        self.values[key] = value

    def getValue(self, key):  # noqa: N802
        return self.values.get(key)

    def removeKey(self, key):  # noqa: N802
        del self.values[key]


def test_a_segment_is_stored_whether_or_not_it_can_be_copied(monkeypatch, local):
    store = SparkStore(Handle(), "join")
    store.open_core(2, MOMENT)
    store.write("one", b"1")
    assert (store.read("one"), store.find_copy("one")) == (b"1", b"1")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        store.write("two", b"2")
        hints.publish(MOMENT, "join", RoutingTable.split(2))
    assert (store.read("two"), store.find_copy("two")) == (b"2", None)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", full)
        store.remove("one")
        store.keep_copies(["two"])
    assert (store.read("one"), store.find_copy("one")) == (None, b"1")
    store.keep_copies(["two"])
    assert store.find_copy("one") is None
    monkeypatch.setattr(os, "mkdir", full)
    store.open_core(3, MOMENT)
    store.write("three", b"3")
    assert (store.read("three"), store.find_copy("three")) == (b"3", None)
    store.remove("three")
    store.keep_copies([])


def test_cores_and_joins_have_folders_of_their_own():
    stores = [SparkStore(Handle(), name) for name in ("a", "a", "b")]
    for store, label in zip(stores, (0, 2, 0), strict=True):
        store.open_core(label, MOMENT)
        store.write("id", str(store.folder).encode())
    assert len({store.find_copy("id") for store in stores}) == 3


def test_a_damaged_hint_is_no_hint(local):
    table = RoutingTable.even(3)
    hints.publish(MOMENT, "join", table)
    later = Moment("query", "run", 6)
    assert hints.find(later, "join").to_json() == table.to_json()
    [path] = shared_files.open_folder(later.owner).glob("routing-*-6.json")
    written = path.read_bytes()
    for damaged in (b"", written[:-1], written.replace(b"3", b"2"), b"[]"):
        path.write_bytes(damaged)
        assert hints.find(later, "join") is None


def age(path, seconds):
    past = time.time() - seconds
    os.utime(path, (past, past))


def test_what_is_forgotten_is_removed_and_nothing_else(local, monkeypatch, tmp_path):
    gone = shared_files.open_folder("ended", "core")
    moved = shared_files.open_folder("goes on", "moved")
    stays = shared_files.open_folder("goes on", "stays")
    for path in (gone, moved, stays):
        shared_files.write_file(path / "file", b"rows")
    strange, linked = local / "streamjoin" / "strange", tmp_path / "linked"
    strange.mkdir(mode=0o755)
    linked.mkdir(mode=0o700)
    for path in (strange, linked, tmp_path / "one"):
        (path / "file").write_text("")
    (local / "streamjoin" / "link").symlink_to(linked, target_is_directory=True)
    for path in (gone, moved, strange, linked):
        age(path, shared_files.FORGOTTEN_SECONDS + 10)
    monkeypatch.setattr(shared_files, "_swept", -1e9)
    shared_files.open_folder("goes on", "stays")
    assert not gone.exists()
    assert not moved.exists()
    assert (stays / "file").exists()
    assert gone.parent.exists()  # for as long again: it has just changed
    age(gone.parent, shared_files.FORGOTTEN_SECONDS + 10)
    shared_files.open_folder("goes on", "stays")
    assert gone.parent.exists()  # it is not looked at so soon
    monkeypatch.setattr(shared_files, "_swept", -1e9)
    shared_files.open_folder("goes on", "stays")
    assert not gone.parent.exists()
    assert all((path / "file").exists() for path in (strange, linked, tmp_path / "one"))


def test_a_join_without_shared_files_finds_the_same(monkeypatch):
    found = []
    for shared in (True, False):
        if not shared:
            monkeypatch.delenv("SPARK_LOCAL_DIRS")
        join = make_join("l.k = r.k", TIMED, 3, window=TimeWindow("5 ms"), time="t")
        cluster = Cluster(join)
        found.append([cluster.pairs(plain(0, 9, t=n), plain(0, 9, t=n)) for n in range(1, 6)])
    assert found[0] == found[1]
