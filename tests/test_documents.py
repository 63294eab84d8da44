"""The documents as a reader sees them: tables that are tables, links that lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAP = ROOT / "tests" / "README.md"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), MAP]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CELL_END = re.compile(r"(?<!\\)\|")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NAME = re.compile(r"`([\w/*]+(?:\.py|/))`")  # of a file or folder

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT))
)


def prose_of(document: Path) -> str:
    return CODE.sub("", document.read_text())


def cells(row: str) -> int:
    """Count cells as a renderer does: a bar ends one, in code too, unless a backslash is before."""
    return len(CELL_END.findall(row)) - 1


def anchors_of(document: Path) -> set[str]:
    """Return what headings can be linked by."""
    headings = (heading.lower() for heading in HEADING.findall(prose_of(document)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


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


def test_the_map_of_the_tests_names_what_there_is() -> None:
    names = NAME.findall(prose_of(MAP))
    missing = [name for name in names if not any(MAP.parent.rglob(name.rstrip("/")))]
    assert not missing, f"nowhere in tests/: {', '.join(missing)}"
