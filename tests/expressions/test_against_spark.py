"""Spark is the judge: every expression below gives the same values here and there.

One table of nasty values per family of types, and one Spark query per table that selects all its
expressions, which keeps the run short. Rows of a table are pairs: every left value meets every
right value, so that ties, NaN against infinity and NULL against anything all occur.
"""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamjoin.errors import EvaluationError, SchemaError
from streamjoin.expressions.evaluation import evaluate
from streamjoin.expressions.parsing import parse_expression, qualify

pytestmark = pytest.mark.spark

INF, NAN = math.inf, math.nan


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


INTS = [None, 0, 1, -1, 7, -7, 100, 2**31 - 1, -(2**31)]
TABLES: dict[str, tuple[dict[str, pa.Array], list[str]]] = {}


def table(name: str, expressions: str, **columns: pa.Array) -> None:
    lines = [line.strip() for line in expressions.strip().splitlines()]
    TABLES[name] = (columns, [line for line in lines if line])


table(
    "integers",
    """
    l.a = r.a
    l.a <> r.a
    l.a < r.a
    l.a <= r.b
    l.a > r.b
    l.a >= r.b
    l.a <=> r.b
    l.a is distinct from r.a
    l.a is not distinct from r.a
    l.b + r.b
    l.b - r.a
    l.b * 3
    l.s + r.s
    l.a / nullif(r.a, 0)
    l.b / nullif(r.a, 0)
    l.a % nullif(r.a, 0)
    mod(l.b, nullif(r.b, 0))
    l.a div nullif(r.a, 0)
    l.b div nullif(r.b, 0)
    try_divide(l.a, r.a)
    try_add(l.a, r.a)
    try_subtract(l.a, r.a)
    try_multiply(l.a, r.a)
    try_multiply(l.b, 9223372036854775)
    try_mod(l.a, r.a)
    -l.b
    abs(l.b)
    abs(l.b - r.b) <= 7
    l.a & r.a
    l.a | r.a
    l.a ^ r.b
    l.s & 3
    l.a between r.a - 0 and r.b
    l.a not between -7 and 7
    l.a in (1, 7, null)
    l.a not in (1, r.a)
    l.a in (1.0, 7.5)
    l.a in ('1', '7')
    l.a = '7'
    l.a < 7.5
    l.a + 0.5
    l.b + 0.5
    l.s * 1.25
    l.a / 4.0
    4.0 / nullif(l.a, 0)
    l.a * 2.5D
    l.a > 1e3
    l.b = 100L
    l.b = 9223372036854775808
    least(l.a, r.b)
    greatest(l.a, r.a, 3)
    least(l.s, 0.5)
    coalesce(l.a, r.b, 5)
    coalesce(l.a, 0.5)
    nvl(l.a, -1)
    ifnull(l.a, r.a)
    nullif(l.a, r.a)
    nullif(l.a, 7.0)
    if(l.a > r.a, l.a, r.b)
    if(l.a > r.a, 1, 2.5)
    case when l.a > 0 then 'p' when l.a < 0 then 'n' else 'z' end
    case l.a when 1 then 'one' when r.a then 'same' end
    case when l.a <> 0 then 10 / l.a end
    l.a <> 0 and 10 / l.a > 1
    l.a = 0 or 10 / l.a > 1
    coalesce(if(l.a = 0, 1, null), 10 / l.a)
    l.a > 0 and r.a > 0
    l.a > 0 or r.a > 0
    not (l.a > 0 or r.a > 0)
    (l.a > 0) is true
    (l.a > 0) is not false
    l.a is null
    l.a is not null and r.a is null
    isnull(l.a)
    isnotnull(l.a)
    null and l.a > 0
    l.a = null
    null <=> l.a
    l.a + null
    round(l.s, -1)
    round(l.b, -2)
    round(l.a)
    ceil(l.a)
    floor(l.b)
    sign(l.a)
    sqrt(l.a)
    positive(l.a)
    negative(l.b)
    cast(l.a as double)
    cast(l.b as float)
    cast(l.a as bigint)
    cast(l.a as decimal(12, 2))
    cast(l.a as string)
    cast(l.a as boolean)
    try_cast(l.a as tinyint)
    try_cast(l.a as smallint)
    try_cast(l.b as decimal(5, 2))
    l.a || '-' || r.a
    -l.b + -5
    (l.b + 1) * 2.50
    3 - 5 = -2
    """,
    a=pa.array(INTS, pa.int32()),
    b=pa.array([None, 0, 1, -1, 7, -7, 100, 2**31, -5_000_000_000], pa.int64()),
    s=pa.array([None, 0, 1, -1, 7, -7, 100, 300, -300], pa.int16()),
)

FLOATS = [None, 0.0, -0.0, 1.5, -1.5, 2.675, INF, -INF, NAN, 1e300, 5e-324, 0.1]
COMPARED = [f"l.d {op} r.d" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")]
table(
    "doubles",
    "\n".join([*COMPARED, *(c.replace(".d", ".f") for c in COMPARED)])
    + """
    l.d = l.f
    l.d <> l.f
    l.d + r.d
    l.d - r.d
    l.d * r.d
    l.d / nullif(r.d, 0)
    l.d % nullif(r.d, 0)
    l.f + r.f
    l.f * r.f
    l.f - r.f
    l.f / nullif(r.f, 0)
    l.f % nullif(r.f, 0)
    l.f + 1
    l.f + 0.5
    l.f = 0.1
    l.f = 0.1F
    l.f < 0.1D
    l.d = 0.1
    l.d = 1.5
    l.d > 1
    abs(l.d - r.d) <= 1.5
    l.d <= r.d + 1.5
    l.d - r.d between -1.5 and 1.5
    try_divide(l.d, r.d)
    try_mod(l.d, r.d)
    -l.d
    abs(l.d)
    abs(l.f)
    sign(l.d)
    isnan(l.d)
    isnan(l.f)
    l.d in (0, 1.5D, double('nan'))
    l.d between 0 and double('nan')
    least(l.d, r.d)
    greatest(l.d, r.d)
    greatest(l.d, r.f, 1)
    nullif(l.d, r.d)
    coalesce(l.d, r.f)
    coalesce(l.d, 1)
    round(l.d)
    round(l.d, 2)
    round(l.d, -1)
    round(l.f, 1)
    sqrt(l.d)
    radians(l.f)
    cast(l.d as float)
    cast(l.f as double)
    try_cast(l.d as int)
    try_cast(l.d as bigint)
    try_cast(l.d as decimal(10, 2))
    cast(if(abs(l.d) < 1e6, l.d, null) as decimal(10, 1))
    cast(if(isnan(l.d), l.d, 0) as decimal(10, 1))
    cast(l.d as boolean)
    ceil(if(abs(l.d) < 1e6, l.d, null))
    floor(if(abs(l.d) < 1e6, l.d, null))
    ceil(if(isnan(l.d), l.d, 1))
    case when l.d <> 0 then r.d / l.d end
    l.d > '1.5'
    l.d + '1.5'
    """,
    d=pa.array(FLOATS, pa.float64()),
    f=pa.array([*FLOATS[:-3], 3.0e38, 1e-45, 0.1], pa.float32()),
)
table(
    "mathematics",
    """
    exp(l.d)
    ln(l.d)
    log(l.d)
    power(l.d, r.d)
    hypot(l.d, r.d)
    sin(l.d)
    cos(l.d)
    tan(l.d)
    asin(l.d)
    acos(l.d)
    atan(l.d)
    atan2(l.d, r.d)
    2 * 6371 * asin(sqrt(power(sin(radians(l.d - r.d) / 2), 2)))
    """,
    d=pa.array([*FLOATS[:-3], 1.0, -1.0, 3.25, 0.1, 100.0], pa.float64()),
)

D = Decimal
table(
    "decimals",
    """
    l.p = r.p
    l.p < r.q
    l.p >= r.q
    l.p <=> r.q
    l.p <> r.w
    l.w = r.w
    l.w > r.q
    l.w = 0.5
    l.w <= 1.5
    l.p + r.p
    l.p - r.q
    l.p * r.q
    l.p / nullif(r.p, 0)
    l.q / nullif(r.p, 0)
    l.p / nullif(r.q, 0)
    l.q / 3
    l.p / 7L
    l.p % nullif(r.p, 0)
    l.q % nullif(r.p, 0)
    l.p % 2
    l.p div nullif(r.q, 0)
    l.p div 3
    l.p div nullif(r.p, 0)
    try_multiply(l.q, r.q)
    try_multiply(l.q, try_multiply(r.q, r.p))
    l.q / nullif(r.q, 0)
    try_add(l.w, r.w)
    try_multiply(l.w, r.q)
    try_divide(l.w, r.p)
    try_divide(l.q, r.q)
    l.p + 1
    l.p * 3
    l.p * (3)
    l.p + 1.005
    l.p + 1e0
    l.p * 2.5D
    -l.p
    abs(l.q)
    abs(l.p - r.p) <= 0.05
    l.p = 1.5
    l.p = 1.5D
    l.p > 1
    l.p = '1.50'
    round(l.p)
    round(l.p, 1)
    round(l.q, 3)
    round(l.p, -1)
    ceil(l.p)
    floor(l.p)
    ceil(l.q)
    sign(l.p)
    sqrt(abs(l.q))
    least(l.p, r.q)
    greatest(l.p, 3, r.w)
    coalesce(l.p, r.q)
    coalesce(l.p, 1)
    nullif(l.p, 1.5)
    if(l.p > 0, l.p, r.q)
    l.p in (1.5, -1.5, r.q)
    l.p in (1, 2)
    cast(l.p as int)
    cast(l.p as double)
    cast(l.q as double)
    cast(l.w as double)
    cast(l.p as float)
    cast(l.p as decimal(10, 1))
    try_cast(l.p as decimal(3, 2))
    try_cast(l.w as bigint)
    cast(l.p as string)
    cast(l.q as string)
    cast(l.p as boolean)
    l.p + l.i
    l.p * l.i
    l.p / nullif(l.i, 0)
    l.p = l.i
    (l.i + 1) * l.p
    (l.i * 2) / 3.0
    l.p + l.d
    l.p < l.d
    isnan(l.p)
    0.1 + 0.2
    1.0 / 3
    """,
    p=pa.array([None, D("0.00"), D("1.50"), D("-1.50"), D("99999999.99"), D("2.25"), D("-0.05")],
               pa.decimal128(10, 2)),
    q=pa.array([None, D("0"), D("1.5"), D("-1.5000000001"), D("12345678901234567890.0123456789"),
                D("2.25"), D("0.0000000001")], pa.decimal128(30, 10)),
    w=pa.array([None, D(0), D(1), D(-1), D("9" * 38), D(2), D("-" + "9" * 38)],
               pa.decimal128(38, 0)),
    i=pa.array([None, 0, 1, -1, 1000000, 2, 3], pa.int32()),
    d=pa.array([None, 0.0, 1.5, -1.5, NAN, INF, 2.25]),
)  # fmt: skip

DATES = [
    None,
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2020, 2, 29),
    date(1, 1, 1),
    date(9999, 12, 30),
]
TIMES = [None, "1970-01-01T00:00:00", "1969-12-31T23:59:59.500000", "2020-02-29T00:00:00",
         "1900-01-01T12:34:56.000001", "2020-02-29T23:00:00"]  # fmt: skip
table(
    "times",
    """
    l.d = r.d
    l.d < r.d
    l.d <= r.t
    l.t > r.d
    l.t = r.t
    l.t >= r.n
    l.n < r.n
    l.n = r.d
    l.t <=> r.n
    l.d = '2020-02-29'
    l.d < '2020'
    l.t > '2020-02-29 12:00:00'
    l.t > '2020-02-29T12:00:00+05:30'
    l.t = date '2020-02-29'
    l.n = timestamp '2020-02-29 00:00:00'
    l.n < timestamp_ntz '2020-02-29 00:00:00'
    l.e + 1
    l.e - 1
    1 + l.e
    l.e + l.i
    date_add(l.e, 30)
    date_sub(l.e, l.i)
    date_add(l.t, 1)
    datediff(l.d, r.d)
    datediff(l.t, r.d)
    datediff(l.d, '2020-01-01')
    l.e - r.e
    l.e - '2020-01-01'
    l.e - r.t
    l.t - r.e
    l.t - r.t
    l.n - r.n
    l.t - r.n
    l.e + interval 1 day
    l.e - interval 1 week
    l.e + interval 36 hours
    l.e + interval 1 day 0 hours
    l.e + (r.e - l.e)
    l.t + interval 5 minutes
    l.t - interval '1 02:03:04.5' day to second
    l.n - interval '90' second
    interval 1 day + l.t
    l.t - interval 1 hour 30 minutes
    l.t - r.t <= interval 1 hour
    abs(l.t - r.t) <= interval '30' minute
    abs(l.e - r.e) < interval 2 days
    -(l.t - r.t)
    l.t - r.t = interval 0 seconds
    (l.t - r.t) * 2
    (l.e - r.e) * 2
    l.t between r.t - interval 1 hour and r.t + interval 1 hour
    interval '1:30' hour to minute = interval 90 minutes
    interval '1 day 2 hours' = interval 26 hours
    l.t + interval '-1 day 2 minutes'
    year(l.d)
    month(l.d)
    day(l.d)
    dayofmonth(l.t)
    year(l.t)
    hour(l.t)
    minute(l.t)
    second(l.t)
    hour(l.n)
    hour(l.d)
    unix_timestamp(l.t)
    unix_timestamp(l.n)
    cast(l.t as bigint)
    cast(l.t as double)
    cast(l.t as date)
    cast(l.n as date)
    cast(l.d as timestamp)
    cast(l.n as timestamp)
    cast(l.t as timestamp_ntz)
    cast(l.d as string)
    cast(l.t as string)
    cast(l.n as string)
    l.d || '!'
    to_date(l.t)
    least(l.d, r.d)
    greatest(l.d, r.t)
    coalesce(l.d, r.t)
    if(l.d > r.d, l.d, r.n)
    nullif(l.t, r.t)
    l.d in (date '2020-02-29', '1970-01-01')
    l.t is null
    l.e + null
    l.t - null
    """,
    d=pa.array(DATES, pa.date32()),
    e=pa.array([*DATES[:-2], date(1900, 1, 1), date(2020, 3, 1)], pa.date32()),
    t=pa.array([text and instant(text) for text in TIMES], pa.timestamp("us", "UTC")),
    n=pa.array([text and datetime.fromisoformat(text) for text in TIMES], pa.timestamp("us")),
    i=pa.array([None, 0, 1, -1, 365, 3], pa.int32()),
)

table(
    "strings",
    r"""
    l.a = r.a
    l.a < r.a
    l.a >= r.a
    l.a <=> r.a
    l.a || r.a
    concat(l.a, '-', r.a)
    upper(l.a)
    lower(l.a)
    length(l.a)
    trim(l.a)
    ltrim(l.a)
    rtrim(l.a)
    substring(l.a, 1, 2)
    substring(l.a, 0, 2)
    substring(l.a, -3, 2)
    substring(l.a, -10, 5)
    substring(l.a, 2)
    substr(l.a, 2, -1)
    substring(l.a, length(r.a), 3)
    substring(l.a, null)
    startswith(l.a, 'a')
    startswith(l.a, r.a)
    endswith(l.a, r.a)
    contains(l.a, r.a)
    contains(l.a, 'b')
    l.a like 'a%'
    l.a like '%b_'
    l.a like '_b%'
    l.a like ''
    l.a like 'a.c'
    l.a like 'a\\%c'
    l.a not like 'a%'
    l.a like substring(r.a, 1, 1) || '%'
    l.a not like '_' || substring(r.a, 2, 1) || '%'
    l.a in ('abc', 'ABC')
    l.a in ('abc', null)
    least(l.a, r.a)
    greatest(l.a, r.a)
    coalesce(l.a, r.a)
    nullif(l.a, r.a)
    case when l.a like 'a%' then l.a end
    try_cast(l.x as int)
    try_cast(l.x as bigint)
    try_cast(l.x as double)
    try_cast(l.x as float)
    try_cast(l.x as decimal(6, 2))
    try_cast(l.x as boolean)
    try_cast(l.x as date)
    try_cast(l.x as timestamp)
    try_cast(l.x as timestamp_ntz)
    length(l.y)
    l.y = r.y
    l.y < r.y
    l.y = l.a
    l.b = r.b
    l.b < r.b
    l.b <=> r.b
    l.b and r.b
    l.b or r.b
    not l.b
    l.b is true
    l.b is not true
    l.b = 'yes'
    cast(l.b as int)
    cast(l.b as double)
    cast(l.b as decimal(3, 1))
    cast(l.b as string)
    coalesce(l.b, r.b)
    greatest(l.b, r.b)
    length(l.b)
    'it''s'
    "dq" = 'dq'
    """,
    a=pa.array([None, "", "abc", "ABC", " a b ", "a%c", "añ😀b", "straße", "a\nc"]),
    x=pa.array([None, "", " 12 ", "1.5e1", "2020-2-3", "2020-01-02 03:04:05.6", "nan", "true",
                "1e400"]),
    y=pa.array([None, b"", b"abc", b"\xff", b"\x00", b"a", b"b", b"c", b"abd"]),
    b=pa.array([None, True, False, True, None, False, True, False, None]),
)  # fmt: skip
TEXTS = """0|+5|-5|- 5|12L|1.|.5|.|1.5d|1.5f|inf|-Infinity|+INF|NaN|-NaN|+nan|1e|1e5|1e-5
|123456.785|9999.995|9999.994|2147483648|-2147483648|9223372036854775808|-9223372036854775809
|00012|1_000|1,000|t|F|yes|no|y|n|2|on|20-01-01|2020/01/01|2020|2020-13|2020-12|2020-02-30
|2020-1-1T|2020-01-01 junk|2020-01-01T10|2020-01-01 10:|2020-01-01 10:1|2020-01-01 24:00:00
|2020-01-01 10:11:12.|2020-01-01 10:11:12.123456789|2020-01-01 10:11:12Z
|2020-01-01 10:11:12 +01:00|2020-01-01 10:11:12-8|2020-01-01 10:11:12UTC+3
|2020-07-01 10:11:12 Europe/Berlin|2020-01-01 10:11:12+19:00|2020-01-01 10:11:12 Nowhere"""
table(
    "texts",
    """
    try_cast(l.x as int)
    try_cast(l.x as bigint)
    try_cast(l.x as double)
    try_cast(l.x as decimal(6, 2))
    try_cast(l.x as decimal(38, 10))
    try_cast(l.x as boolean)
    try_cast(l.x as date)
    try_cast(l.x as timestamp)
    try_cast(l.x as timestamp_ntz)
    """,
    x=pa.array(TEXTS.replace("\n", "").split("|")),
)


@pytest.fixture(scope="module")
def judged(
    spark: Any,
) -> Callable[[str], tuple[pa.RecordBatch, pa.RecordBatch, list[Any], list[str]]]:
    """The pairs of a table, and Spark's values of its expressions: one list per expression."""

    def judge(name: str) -> tuple[pa.RecordBatch, pa.RecordBatch, list[Any], list[str]]:
        columns, expressions = TABLES[name]
        rows = len(next(iter(columns.values())))
        first = [i for i in range(rows) for _ in range(rows)]
        second = [j for _ in range(rows) for j in range(rows)]
        batch = pa.RecordBatch.from_pydict(columns)
        left, right = batch.take(pa.array(first)), batch.take(pa.array(second))
        joined = pa.table(
            {"id": list(range(rows * rows))}
            | {f"l_{c}": left.column(c) for c in columns}
            | {f"r_{c}": right.column(c) for c in columns}
        )
        frame = spark.createDataFrame(joined)
        # createDataFrame makes a TIMESTAMP of every Arrow timestamp, with a zone or without.
        casts = {c: "::timestamp_ntz" for c in columns if columns[c].type == pa.timestamp("us")}
        structs = [
            f"struct({', '.join(f'{s}_{c}{casts.get(c, str())} as {c}' for c in columns)}) as {s}"
            for s in ("l", "r")
        ]
        selected = [f"{sql} as v{i}" for i, sql in enumerate(expressions)]
        result = frame.selectExpr("id", *structs).selectExpr("id", *selected).toArrow()
        result = result.sort_by("id")
        return left, right, [result.column(f"v{i}") for i in range(len(expressions))], expressions

    # Small tables would otherwise be computed by the optimizer, in another way than real queries.
    rule = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    # Expressions are judged alone: Spark hoists a division that several of them share out of the
    # AND that guards it, and raises.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    # One generated method of a hundred expressions takes long to compile.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield judge
    spark.conf.unset("spark.sql.optimizer.excludedRules")
    spark.conf.unset("spark.sql.subexpressionElimination.enabled")
    spark.conf.unset("spark.sql.codegen.wholeStage")


def same(ours: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        if tolerance and not math.isinf(theirs):
            return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-320)
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    return bool(ours == theirs) and isinstance(ours, type(theirs))


def types_agree(ours: pa.DataType, theirs: pa.DataType) -> bool:
    if pa.types.is_integer(ours) and pa.types.is_integer(theirs):
        return ours.bit_width >= theirs.bit_width  # exact sums of narrow integers are int64
    if pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs):
        return (ours.tz is None) == (theirs.tz is None)
    return ours == theirs


@pytest.mark.parametrize("name", list(TABLES))
def test_values_and_types_are_sparks(name: str, judged: Any) -> None:
    left, right, answers, expressions = judged(name)
    tolerance = 4e-16 if name == "mathematics" else 0.0
    wrong = []
    for sql, answer in zip(expressions, answers, strict=True):
        tree = qualify(parse_expression(sql), left.schema, right.schema)
        value = evaluate(tree, left, right)
        if evaluate(tree, left[:0], right[:0]).type != value.type:
            wrong.append(f"{sql}: the type on zero rows differs")
        if not types_agree(value.type, answer.type):
            wrong.append(f"{sql}: type {value.type}, Spark's {answer.type}")
        pairs = enumerate(zip(value.to_pylist(), answer.to_pylist(), strict=True))
        bad = [(row, a, b) for row, (a, b) in pairs if not same(a, b, tolerance)]
        for row, ours, theirs in bad[:2]:
            wrong.append(f"{sql}: {ours!r}, Spark {theirs!r} for {left[row:row+1].to_pylist()} "
                         f"{right[row:row+1].to_pylist()}")  # fmt: skip
    assert not wrong, "\n".join(wrong)


RAISING = """
    9223372036854775807 + 1
    -9223372036854775808 - 1L
    9223372036854775807 * 2
    -(-9223372036854775808)
    abs(-9223372036854775808)
    -9223372036854775808 div -1
    1 / 0
    1 div 0
    1 % 0
    1.5 / 0
    1.5 % 0.0
    1D / 0
    1D / -0.0D
    1D % 0D
    1 = 1 and 1 / 0 > 1
    coalesce(null, 1 / 0)
    case when 1 / 0 > 1 then 1 end
    cast(99999999999999999999999999999999999999 as decimal(38,0)) + 1
    cast(300 as tinyint)
    cast(3000000000 as int)
    cast(double('nan') as int)
    cast(1e19 as bigint)
    cast(100D as decimal(3, 2))
    cast(123.45 as decimal(4, 2))
    cast('1.5' as int)
    cast('x' as double)
    cast('100' as decimal(3, 1))
    cast('maybe' as boolean)
    cast('2020-02-30' as date)
    cast('noon' as timestamp)
    1 = 'x'
    'x' + 1
    date '2020-01-01' = 'x'
    1 in ('x')
    ceil(1e30)
    floor(double('inf'))
    round(9223372036854775807, -1)
"""
REFUSED = """
    1 = date '2020-01-01'
    1 = true
    true = 1.5
    date '2020-01-01' + 1L
    date '2020-01-01' + 1.5
    1 - date '2020-01-01'
    timestamp '2020-01-01 00:00:00' + 1
    timestamp '2020-01-01 00:00:00' = 1
    interval 1 day = 1
    1 + interval 1 day
    interval 1 day = '1'
    true + 1
    -true
    abs(true)
    true & 1
    1.5 & 1
    1.5D div 2
    not 1
    1 and true
    if(1, 2, 3)
    case when 1 then 2 end
    coalesce(1, true)
    if(true, 1, date '2020-01-01')
    least(1, 'x')
    greatest(1, true)
    1 in (true)
    sqrt(true)
    sqrt(date '2020-01-01')
    year(1)
    hour(1)
    date_add(1, 1)
    date_add(date '2020-01-01', 1.5)
    cast(timestamp_ntz '2020-01-01 00:00:00' as bigint)
"""


def listed(expressions: str) -> list[str]:
    return [line.strip() for line in expressions.strip().splitlines()]


def test_values_that_spark_refuses_raise_here_too(spark: Any) -> None:
    from pyspark.errors import AnalysisException, PySparkException

    for sql in listed(RAISING):
        with pytest.raises(EvaluationError):
            evaluate(parse_expression(sql))
        with pytest.raises(PySparkException) as refused:
            spark.sql(f"select {sql}").collect()
        assert not isinstance(refused.value, AnalysisException), sql


def test_types_that_spark_refuses_raise_here_too_even_without_rows(spark: Any) -> None:
    from pyspark.errors import AnalysisException

    nothing = pa.RecordBatch.from_pydict({"x": pa.array([], pa.int32())})
    for sql in listed(REFUSED):
        with pytest.raises(AnalysisException):
            spark.sql(f"select {sql}")
        with pytest.raises(SchemaError):
            evaluate(parse_expression(sql), nothing, nothing)
