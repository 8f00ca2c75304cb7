"""Which texts would be another value in a column of a type: conditions in SQL, since PostgreSQL rounds and cuts what it reads of a text."""

from __future__ import annotations

_WHOLE = {  # what has all of a text that the type itself would cut
    "date": "timestamptz",
    "bit": "bit varying",
    "character": "text",
    "character varying": "text",
    "name": "text",
    '"char"': "text",
}
_TIMES = ("time without time zone", "time with time zone")
_MOMENTS = ("date", "timestamp without time zone", "timestamp with time zone")
_RANGES = ("daterange", "tsrange", "tstzrange", "datemultirange", "tsmultirange", "tstzmultirange")
_OIDS = ("oid", "oidvector")  # below 0 they begin again from above
_COUNTERS = ("xid", "cid", "xid8")  # PostgreSQL reads the first digits of any text, and ignores the rest
_SHAPES = ("point", "line", "lseg", "box", "path", "polygon", "circle")
_EXACT = {  # how a text must look where PostgreSQL takes others, too, and leaves out what it cannot use
    "tid": r"^\s*\(\d+,\d+\)\s*$",
    "macaddr": (r"^\s*(([0-9a-f]{1,2}[:-]){5}[0-9a-f]{1,2}|[0-9a-f]{6}[:-]?[0-9a-f]{6}|([0-9a-f]{4}[.-]){2}[0-9a-f]{4})\s*$"),
    "cidr": r"^\s*[0-9a-f.:]+(/\d+)?\s*$",
}
_DIGITS = {"real": "9.99999999EEEE", "double precision": "9.9999999999999999EEEE"}  # as many as tell all numbers apart
_NO_NUMBER = r"'^\s*[+-]?(nan|inf|infinity)\s*$'"
_TIME_ALONE = r"'^\s*t?(\d{1,2}(:\d{1,2}){1,2}|\d{4,6})([.,]\d*)?\s*([ap]m)?\s*(z|utc|gmt|[+-]\d{1,2}(:?\d{2}){0,2})?\s*$'"
_TIME_OF_UTC = r"'^\s*t?(\d{1,2}(:\d{1,2}){1,2}|\d{4,6})([.,]\d*)?\s*([ap]m)?\s*(z|utc|gmt|[+-]0{1,2}(:?00){0,2})?\s*$'"
_FRACTION_TOO_FINE = r"'[.,]\d{6}\d*[1-9]'"
_NO_MOMENT = r"'[^[:alnum:][:space:]:.,/+_-]'"  # signs that are passed over, so that a circle is a date
_MOMENT = r"'[[:alpha:]]|\d+[-/.]\d+[-/.]\d+|\d{4}[-/. ]\d|^\s*\d{6,}'"
_YEARS_TOO_FINE = r"'\.(?!([27]?50*|0+)\D)\d+\s*y'"  # which are rounded to months, other than quarters of a year
_NO_INTERVAL = r"'[^[:alnum:][:space:]:.,+@-]'"
_NUMBER = r"'[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf(?:inity)?|nan)'"
_PLACE_TOO_FAR = r"'[:,]0*(1638[4-9]|1639\d|16[4-9]\d\d|1[7-9]\d{3}|[2-9]\d{4}|\d{6,})'"  # a tsvector has 16383 places
_IN_QUOTES = r"'\"(\\.|[^\"\\])*\"'"
_NEGATIVE_ZERO = r"'(^|[[:space:][,:])-0(\.0*)?([eE][+-]?\d+)?([^0-9.eE]|$)'"
_UNSIGNED = r"(\d+(\.\d*)?|\.\d+|\d{1,3}(,\d{3})+(\.\d*)?)"
_AMOUNT = rf"'^\s*([+-]?\s*\$?\s*{_UNSIGNED}|\$\s*[+-]\s*{_UNSIGNED}|\(\s*\$?\s*{_UNSIGNED}\s*\))\s*$'"
_OF_THE_WRITE = r"'\y(now|today|tomorrow|yesterday)\y'"


def difference_of_text(text: str, kind: str, modified: str) -> str | None:
    """
    The condition under which a text would be another value in a column; None where that cannot be.

    `kind` is the type without its modifier, `modified` with it. Where a text is no value at all the condition is PostgreSQL's error.
    """
    if kind.endswith("[]"):
        return difference_in_array(f"{text}::text[]", kind, modified)
    found = [*_conditions(text, kind)]
    whole = _WHOLE.get(kind, kind)
    if kind in _DIGITS:
        found.append(_float_difference(text, kind))
    elif kind in _COUNTERS:
        found.append(
            rf"CASE WHEN {text} !~ '^\s*(0|[1-9]\d*)\s*$' THEN true ELSE {text}::numeric IS DISTINCT FROM {text}::{kind}::text::numeric END"
        )
    elif kind == "money":
        found.append(_money_difference(text))
    elif modified != whole:
        found.append(f"{text}::{whole} IS DISTINCT FROM {text}::{modified}::{whole}")
    return f"({' OR '.join(found)})" if found else None


def difference_in_array(texts: str, kind: str, modified: str) -> str | None:
    """The same of an array of texts in a column of an array."""
    inner = difference_of_text("item", kind.removesuffix("[]"), modified.removesuffix("[]"))
    return None if inner is None else f"EXISTS (SELECT FROM unnest({texts}) AS items(item) WHERE {inner})"


def negative_zero(text: str) -> str:
    """Whether a number in a JSON text is -0, outside of quotes: numbers of jsonb have no sign there."""
    return f"({text} LIKE '%-0%' AND regexp_replace({text}, {_IN_QUOTES}, '', 'g') ~ {_NEGATIVE_ZERO})"


def difference_of_row(text: str, kind: str) -> str:
    """The same of a composite type: its values must be as PostgreSQL writes them, but for blanks and quotes."""
    return (
        rf"""regexp_replace({text}::{kind}::text, '[\s"]', '', 'g') IS DISTINCT FROM regexp_replace({text}, '[\s"]', '', 'g')"""
    )


def _conditions(text: str, kind: str) -> list[str]:
    found = []
    if kind in (*_TIMES, *_MOMENTS, *_RANGES):
        found.append(f"{text} ~* {_OF_THE_WRITE}")
    if kind in (*_TIMES, *_MOMENTS, *_RANGES, "interval"):
        found.append(f"{text} ~ {_FRACTION_TOO_FINE}")
    if kind in _TIMES:
        found.append(f"{text} !~* {_TIME_OF_UTC if kind == _TIMES[0] else _TIME_ALONE}")
    if kind == "timestamp without time zone":
        found.append(f"{text}::timestamptz AT TIME ZONE 'UTC' IS DISTINCT FROM {text}::timestamp")
    if kind in ("daterange", "datemultirange"):
        found.append(f"{text} ~ ':'")
    if kind in ("tsrange", "tsmultirange"):
        found.append(rf"{text} ~ ':\d\d(\.\d+)?\s*([+-]|[A-Za-z])'")
    if kind in _OIDS:
        found.append(f"{text} ~ '-'")
    return [*found, *_conditions_of_texts(text, kind)]


def _conditions_of_texts(text: str, kind: str) -> list[str]:
    """Conditions that look at the text alone, or count what PostgreSQL took of it."""
    found = []
    if kind in _MOMENTS:
        found.append(f"{text} ~ {_NO_MOMENT} OR ({text} !~ {_MOMENT})")
    if kind == "interval":
        found += [f"{text} ~ {_NO_INTERVAL}", f"{text} ~* {_YEARS_TOO_FINE}"]
    if kind in _EXACT:
        found.append(f"{text} !~* '{_EXACT[kind]}'")
    if kind in _SHAPES:
        number = _float_difference("number[1]", "double precision")
        found.append(f"EXISTS (SELECT FROM regexp_matches({text}, {_NUMBER}, 'gi') AS numbers(number) WHERE {number})")
    if kind == "tsvector":
        found.append(f"regexp_replace({text}, $$'([^']|'')*'$$, '', 'g') ~ {_PLACE_TOO_FAR}")
    if kind == "jsonb":
        found.append(negative_zero(text))
        found.append(f"{_signs(text, ':')} IS DISTINCT FROM {_signs(f'{text}::{kind}::text', ':')}")
    if kind.rpartition(".")[2] == "hstore":
        found.append(f"{_signs(text, '=>')} IS DISTINCT FROM {_signs(f'{text}::{kind}::text', '=>')}")
    return found


def _signs(text: str, sign: str) -> str:
    """Count a sign outside of quotes: each name has one, so PostgreSQL's text has fewer if a name came twice."""
    bare = rf"regexp_replace(regexp_replace({text}, {_IN_QUOTES}, '', 'g'), '\\.', '', 'g')"
    return f"length({bare}) - length(replace({bare}, '{sign}', ''))"


def _float_difference(text: str, kind: str) -> str:
    """A number must be as PostgreSQL would write it, or with all digits that any of its type needs."""
    made = f"{text}::{kind}"
    return (
        f"CASE WHEN {text} ~* {_NO_NUMBER} THEN false ELSE {text}::numeric NOT IN ({made}::text::numeric, "
        f"to_char({made}, '{_DIGITS[kind]}')::numeric) END"
    )


def _money_difference(text: str) -> str:
    """An amount may have a dollar sign, groups of thousands, and parentheses in place of a minus."""
    sign = rf"(CASE WHEN {text} ~ '\(' THEN -1 ELSE 1 END)"
    number = rf"regexp_replace({text}, '[\s$,()]', '', 'g')::numeric"
    return (
        f"CASE WHEN {text} IS NULL OR {text}::money::text = btrim({text}) THEN false WHEN {text} ~ {_AMOUNT} "
        f"THEN {sign} * {number} IS DISTINCT FROM {text}::money::numeric ELSE true END"
    )
