"""Reading and resolving expressions, and what the errors say."""

import pyarrow as pa
import pytest

from streamjoin.errors import ConditionError, SchemaError
from streamjoin.expressions.parsing import columns, parse_expression, qualify, sides

LEFT = pa.schema(
    [("price", pa.float64()), ("Size", pa.int32()), ("s", pa.struct([("x", pa.int32())]))]
)
RIGHT = pa.schema([("price", pa.float64()), ("volume", pa.int64())])


def written(sql: str, left: pa.Schema | None = LEFT, right: pa.Schema | None = RIGHT) -> str:
    return qualify(parse_expression(sql), left, right).sql(dialect="spark")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("l.price < r.price", "l.price < r.price"),
        ("L.PRICE < R.Price", "l.price < r.price"),
        ("size = VOLUME", "l.Size = r.volume"),
        ("`l`.`size` = 1", "l.Size = 1"),
        ("abs(size - volume) <= 5", "ABS(l.Size - r.volume) <= 5"),
        ("size", "l.Size"),
    ],
)
def test_columns_get_their_side_and_the_schemas_spelling(sql: str, expected: str) -> None:
    assert written(sql) == expected


@pytest.mark.parametrize("sql", ["l.s.x = 1", "s.x = 1", "L.S.x = 1"])
def test_a_struct_field_is_read_from_its_column(sql: str) -> None:
    tree = qualify(parse_expression(sql), LEFT, RIGHT)
    assert columns(tree) == [("l", "s")]
    assert tree.sql(dialect="spark") == "l.s.x = 1"
    assert qualify(tree, LEFT, RIGHT) == tree


def test_an_exact_name_wins_over_one_that_differs_in_case() -> None:
    schema = pa.schema([("a", pa.int32()), ("A", pa.int32())])
    assert written("l.A + l.a", schema) == "l.A + l.a"


@pytest.mark.parametrize("name", ["select", "a.b", "case", "order", "x y", "Größe", "date"])
def test_a_name_is_written_so_that_it_reads_back(name: str) -> None:
    schema = pa.schema({name: pa.int64()})
    tree = qualify(parse_expression(f"l.`{name}` + 1"), schema, schema)
    again = parse_expression(tree.sql("spark"))
    assert columns(qualify(again, schema, schema)) == [("l", name)]


def test_names_that_differ_in_case_only_are_ambiguous() -> None:
    schema = pa.schema([("ab", pa.int32()), ("AB", pa.int32())])
    with pytest.raises(SchemaError, match=r"l\.Ab is ambiguous.*'ab', 'AB'; rename one"):
        written("l.Ab = 1", schema)


def test_an_unaliased_column_of_both_sides_is_ambiguous() -> None:
    with pytest.raises(SchemaError, match=r"'price' is ambiguous.*write l\.price or r\.price"):
        written("price > 1")


def test_an_unknown_column_is_named_with_the_known_ones_and_a_suggestion() -> None:
    message = (
        r"left input has no column 'pric'; known columns: price, Size, s; did you mean 'price'"
    )
    with pytest.raises(SchemaError, match=message):
        written("l.pric > 1")
    with pytest.raises(SchemaError, match=r"'volum' is in neither input.*did you mean 'volume'"):
        written("volum > 1")


def test_an_unknown_alias_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"'t' is neither an alias nor a column.*left input is l"):
        written("t.price > 1")


def test_a_side_whose_schema_is_unknown_is_left_alone() -> None:
    assert written("l.Foo < R.Bar", None, None) == "l.Foo < r.Bar"
    assert written("l.foo < r.VOLUME", None) == "l.foo < r.volume"
    assert written("foo < r.volume", None) == "l.foo < r.volume"


@pytest.mark.parametrize(("left", "right"), [(None, None), (None, RIGHT), (LEFT, None)])
def test_an_unaliased_column_that_cannot_be_decided_is_an_error(
    left: pa.Schema | None, right: pa.Schema | None
) -> None:
    with pytest.raises(SchemaError, match="ambiguous"):
        written("price > 1", left, right)


def test_sides_and_columns() -> None:
    tree = qualify(parse_expression("l.price + size < r.price and l.price > 0"), LEFT, RIGHT)
    assert sides(tree) == {"l", "r"}
    assert columns(tree) == [("l", "price"), ("l", "Size"), ("r", "price")]
    assert sides(parse_expression("1 < 2")) == frozenset()


def test_qualify_does_not_change_its_argument() -> None:
    tree = parse_expression("size = 1")
    qualify(tree, LEFT, RIGHT)
    assert tree.sql(dialect="spark") == "size = 1"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("l.a = = 3", r"cannot read 'l\.a = = 3' at line 1, column 7, near '=': a value is"),
        ("l.a and", r"cannot read 'l\.a and' at line 1, column 7, near 'and': a value is missing"),
        ("l.a && l.b", r"near '&&': this is not allowed here; combine conditions by and, or"),
        ("(l.a = 3", r"near '3': a \) is missing"),
        ("l.a = 3)", r"near '\)': this is not allowed here"),
        ("(l.a", r"cannot read '\(l\.a' at line 1"),
        ("'open", r"cannot read \"'open\": "),
        (" ", "the expression is empty"),
        ("select 1", "'select 1' is not a scalar expression"),
        ("l.a; l.b", "is not a scalar expression"),
        ("l.a as b", "names its result"),
    ],
)
def test_what_cannot_be_read_says_where(sql: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message) as caught:
        parse_expression(sql)
    assert "\x1b" not in str(caught.value)
    assert "<class" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "again"),
    [
        ("l.t - interval 1 hour 30 minutes", "l.t - (INTERVAL '1' HOUR + INTERVAL '30' MINUTES)"),
        ("l.t + interval 1 day + interval 1 hour", "l.t + INTERVAL '1' DAY + INTERVAL '1' HOUR"),
        ("l.a = 'it''s'", r"l.a = 'it\'s'"),
        ("l.a = \"it''s\"", r"l.a = 'it\'\'s'"),
    ],
)
def test_a_tree_written_back_means_the_same(sql: str, again: str) -> None:
    tree = parse_expression(sql)
    assert tree.sql(dialect="spark") == again
    assert parse_expression(again) == tree


def test_a_star_is_no_value() -> None:
    with pytest.raises(ConditionError, match="name the column"):
        written("l.* = 1")
