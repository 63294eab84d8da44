"""The documents as a reader sees them: tables that are tables, links that lead somewhere, paths
that exist, and an index that names every page."""

import re
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.registry import SUITES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX, ARCHITECTURE = DOCS / "README.md", DOCS / "design" / "architecture.md"
TEST_MAP = ROOT / "tests" / "README.md"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
DOCUMENTS = [*sorted(set(ROOT.glob("*.md")) - set(PAGES)), *PAGES, TEST_MAP]
MOST_LINES = 150  # of the page that gives the overview

CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CELL_END = re.compile(r"(?<!\\)\|")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FILE = re.compile(r"(?<![\w/.-])(?:[\w-]+/)+[\w-]+\.py\b")  # in prose, code and drawings
FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
IN_TESTS = re.compile(r"`([\w/*]+(?:\.py|/))`")  # a file or folder that the map of the tests names
MODULE = re.compile(r"from streamjoin\.([\w.]+) import")
SUITE = re.compile(r"python -m benchmarks ([\w-]+)")


def ids(document: Path) -> str:
    return str(document.relative_to(ROOT))


each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
each_page = pytest.mark.parametrize("page", PAGES, ids=ids)


def prose_of(document: Path) -> str:
    return CODE.sub("", document.read_text())


def cells(row: str) -> int:
    """Count cells as a renderer does: a bar ends one, in code too, unless a backslash is before."""
    return len(CELL_END.findall(row)) - 1


def anchors_of(document: Path) -> set[str]:
    """Return what headings can be linked by."""
    headings = (heading.lower() for heading in HEADING.findall(prose_of(document)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def exists(path: str) -> bool:
    """Whether a path is there, from the root of the repository or of the package."""
    return any((root / path).exists() for root in (ROOT, ROOT / "src" / "streamjoin"))


def linked_from(document: Path) -> set[Path]:
    """Return the files that a document links to."""
    paths = (path for path, _ in LINK.findall(prose_of(document)) if path)
    return {(document.parent / path).resolve() for path in paths}


@each_document
def test_rows_of_a_table_have_as_many_cells_as_its_header(document: Path) -> None:
    for table in TABLE.findall(prose_of(document)):
        rows = table.splitlines()
        assert len(rows) > 2, f"no table: {rows[0]}"
        assert re.fullmatch(r"\|( ?:?-+:? ?\|)+", rows[1]), f"no header: {rows[0]}"
        assert {cells(row) for row in rows} == {cells(rows[0])}, rows[0]


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for path, anchor in LINK.findall(prose_of(document)):
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"({path}) does not exist"
        if anchor:
            assert anchor[1:] in anchors_of(target), f"{target.name} has no heading {anchor}"


@each_page
def test_files_folders_and_modules_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    modules = (module.replace(".", "/") for module in MODULE.findall(text))
    missing = [
        name
        for name in chain(FILE.findall(text), FOLDER.findall(prose_of(page)))
        if not exists(name)
    ]
    missing += [name for name in modules if not exists(f"{name}.py") and not exists(name)]
    assert not missing, ", ".join(missing)


@each_page
def test_benchmark_suites_that_are_named_exist(page: Path) -> None:
    assert set(SUITE.findall(page.read_text())) - {"SUITE"} <= set(SUITES)


def test_the_index_names_every_page() -> None:
    measured = DOCS / "measured" / "README.md"  # has an index of its own
    found = linked_from(INDEX) | linked_from(measured)
    assert set(DOCS.rglob("*.md")) - {INDEX} <= found


def test_every_suite_has_a_page_of_its_figures() -> None:
    pages = {page.stem for page in (DOCS / "measured").glob("*.md")}
    assert pages - {"README"} == set(SUITES)


def test_the_overview_stays_short() -> None:
    assert len(ARCHITECTURE.read_text().splitlines()) <= MOST_LINES


def test_the_map_of_the_tests_names_what_there_is() -> None:
    names = IN_TESTS.findall(prose_of(TEST_MAP))
    missing = [name for name in names if not any(TEST_MAP.parent.rglob(name.rstrip("/")))]
    assert not missing, f"nowhere in tests/: {', '.join(missing)}"
