"""Equality joins of the intra-window study's real inputs, where the environment names them.

The expected numbers of matches come with the data.
"""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from streamjoin import find_matches

DATA = Path(os.environ.get("STREAMJOIN_STUDY_DATA", "no such folder"))

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the study's data are not at hand")

CASES = [
    ("stock_cj_1000ms_1t", "stock_sb_1000ms_1t", ["key", "time"], "key", 15_598_112),
    ("stock_cj_60s_1t", "stock_sb_60s_1t", ["key", "time"], "key", 786_396),
    ("rovio_6s_1t", "rovio_6s_1t", ["user", "pack", "price", "time"], "user", 36_002_768),
]


def read(name: str, columns: list[str]) -> pa.RecordBatch:
    with pa.input_stream(DATA / f"{name}.txt.gz", compression="gzip") as file:
        table = pa.csv.read_csv(
            file,
            pa.csv.ReadOptions(column_names=columns),
            pa.csv.ParseOptions(delimiter="|"),
        )
    return table.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("algorithm", ["bi_sort", "npj", "prj", "mway", "mpass"])
@pytest.mark.parametrize(("left", "right", "columns", "key", "matches"), CASES)
def test_match_counts(
    left: str, right: str, columns: list[str], key: str, matches: int, algorithm: str
) -> None:
    batches = {"left": read(left, columns), "right": read(right, columns)}
    found = find_matches(*batches.values(), on=f"l.{key} = r.{key}", algorithm=algorithm, threads=2)
    assert found.count() == matches
