"""Kinds of values at every place where a function may capture them: a change is noticed, and a restart that changed nothing is none."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import TopologyError
from streamkit.plan.function_digest import digest_of
from tests.unit.plan.test_function_digest import Rate, using

# The text of a module that makes X, with a mark where two versions of it differ, and these two.
KINDS: dict[str, tuple[str, str, str]] = {
    "a function of Python": ("import re\nX = re.@@", "sub", "subn"),
    "a function written in C": ("import math, operator\nX = @@.pow", "math", "operator"),
    "a function of an object of Python": ("import random\nX = random.@@", "randint", "uniform"),
    "a class of Python": ("import decimal, fractions\nX = @@", "decimal.Decimal", "fractions.Fraction"),
    "a method of a class of Python": ("import datetime\nX = datetime.datetime.@@", "fromisoformat", "fromtimestamp"),
    "a function of pandas": ("import pandas\nX = pandas.@@", "to_datetime", "to_numeric"),
    "a function of numpy": ("import numpy\nX = numpy.@@", "sum", "mean"),
    "a function of numpy written in C": ("import numpy\nX = numpy.@@", "add", "subtract"),
    "a function of an object of numpy": ("import numpy\nX = numpy.random.@@", "rand", "randn"),
    "a function of Arrow": ("import pyarrow.compute\nX = pyarrow.compute.@@", "add", "subtract"),
    "a partial of a function of Python": ("import functools, re\nX = functools.partial(re.sub, '@@')", "a", "b"),
    "a cached function": ("import functools\n@functools.cache\ndef X(r): return @@", "1", "2"),
    "a function that a library wraps": ("import contextlib\n@contextlib.contextmanager\ndef X(): yield @@", "1", "2"),
    "a function for each class": ("import functools\n@functools.singledispatch\ndef X(r): return @@", "1", "2"),
    "a function that imports": ("from re import @@ as other\ndef X(r): return other('a', 'b', r)", "sub", "subn"),
    "a function": ("def X(r): return @@", "1", "2"),
    "a function of a function": ("import re\ndef g(r, s=re.sub): return @@\ndef X(r): return g(r)", "1", "2"),
    "a member whose method": ("import enum\nclass E(enum.Enum):\n  A = 1\n  def rate(self): return @@\nX = E.A", "1", "2"),
    "a member whose attribute": (
        "import enum\nclass E(enum.Enum):\n  A = 1\n  def __init__(self, n): self.rate = n + @@\nX = E.A",
        "1",
        "2",
    ),
    "a member whose value": ("import enum\nclass E(enum.Enum):\n  A = frozenset('abcdef@@')\nX = E.A", "g", "h"),
    "a member whose property": (
        "import enum\nclass E(enum.IntEnum):\n  A = 1\n  @property\n  def rate(self): return @@\nX = E.A",
        "1",
        "2",
    ),
    "members": ("import enum\nclass E(enum.Flag):\n  A = 1\n  B = 2\n  C = 4\nX = E.A | E.@@", "B", "C"),
    "a member beside another": ("import enum\nclass E(enum.Enum):\n  A = 1\n  B = @@\nX = E.A", "2", "3"),
    "a member of Python": ("import http\nX = http.HTTPStatus.@@", "OK", "CREATED"),
    "an object whose method": ("class C:\n  def rate(self): return @@\nX = C()", "1", "2"),
    "an object whose text": ("class C:\n  s = set('abcdef')\n  def __repr__(self): return f'{self.s}@@'\nX = C()", "1", "2"),
    "a data class whose method": (
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n  n: int = 1\n  def rate(self): return @@\nX = C()",
        "1",
        "2",
    ),
    "a named tuple whose method": (
        "from typing import NamedTuple\nclass C(NamedTuple):\n  n: int = 1\n  def rate(self): return @@\nX = C()",
        "1",
        "2",
    ),
    "a number whose method": ("class C(int):\n  def rate(self): return @@\nX = C(1)", "1", "2"),
    "a method": ("class C:\n  def rate(self): return @@\nX = C().rate", "1", "2"),
    "a class": ("class C:\n  def rate(self): return @@\nX = C", "1", "2"),
    "large numbers": ("X = 10**5000 + @@", "1", "2"),
    "large fractions": ("import fractions\nX = fractions.Fraction(10**5000 + @@, 7)", "1", "2"),
    "code": ("X = compile('@@', '', 'eval')", "1", "2"),
    "a part of a list": ("X = slice(1, @@)", "1", "2"),
    "a namespace": (
        "import types\nclass C:\n  def rate(self): return @@\nX = types.SimpleNamespace(n=C(), s=set('abc'))",
        "1",
        "2",
    ),
    "a list of Python's own": (
        "import collections\nclass C:\n  def rate(self): return @@\nX = collections.UserList([C()])",
        "1",
        "2",
    ),
    "options of Arrow": ("import pyarrow.compute as pc\nX = pc.SplitPatternOptions('@@')", "a", "b"),
    "options of Arrow with values": (
        "import pyarrow, pyarrow.compute as pc\nX = pc.SetLookupOptions(pyarrow.array([*range(99), @@, *range(99)]))",
        "1",
        "2",
    ),
    "options of CSV": ("import pyarrow.csv\nX = pyarrow.csv.ParseOptions(delimiter='@@')", ";", "|"),
    "options of CSV to write": ("import pyarrow.csv\nX = pyarrow.csv.WriteOptions(delimiter='@@')", ";", "|"),
    "options of messages": ("import pyarrow\nX = pyarrow.ipc.IpcWriteOptions(compression='@@')", "lz4", "zstd"),
    "conditions of Arrow": ("import pyarrow.compute as pc\nX = pc.field('a') > @@", "1", "2"),
    "arrays": ("import numpy\nX = numpy.arange(6).reshape(2, 3) + @@", "1", "2"),
    "arrays with gaps": ("import numpy\nX = numpy.ma.masked_equal([1, 2, 3], @@)", "1", "2"),
    "frames": ("import pandas\nX = pandas.DataFrame({'a': [1], 'b': ['@@']})", "1", "2"),
    "categories": ("import pandas\nX = pandas.Categorical(['a'], [*map(str, range(99)), 'a', '@@'])", "b", "c"),
}
_WRAPS = "import functools\nclass W:\n  def __init__(self, g, by): functools.update_wrapper(self, g); self.by = by\n  def __call__(self, r): "
_OWN = "import functools, operator\nclass G:\n  def __init__(self, n): self.n = n\n  def __call__(self, r): return self.n\n"
_MODULE = "import sys, types\nm = sys.modules['basemod'] = types.ModuleType('basemod')\n"
KINDS |= {
    "a long pattern": ("import re\nX = re.compile('a' * 300 + '@@')", "b", "c"),
    "an object around a function": (f"{_WRAPS}return self.by\nX = W(lambda r: 1, @@)", "1", "2"),
    "an object around a function whose method": (f"{_WRAPS}return @@\nX = W(lambda r: 1, 1)", "1", "2"),
    "an object like a partial": (f"{_OWN}X = G(@@); X.func = len; X.keywords = {{}}", "1", "2"),
    "an own partial": ("import functools\nclass P(functools.partial):\n  def __call__(self, r): return @@\nX = P(len)", "1", "2"),
    "the extent of a try": (
        "def X(r):\n  try:\n    n = int(r)\n@@  return n",
        "    n = chr(n)\n  except ValueError:\n    return 1\n",
        "  except ValueError:\n    return 1\n  else:\n    n = chr(n)\n",
    ),
    "a setter": ("class X:\n  @property\n  def a(self): return 1\n  @a.setter\n  def a(self, n): self.n = @@", "1", "2"),
    "a property of an itemgetter": ("import operator\nclass X(tuple):\n  a = property(operator.itemgetter(@@))", "0", "1"),
    "a property of a partial": (
        "import functools\nclass X:\n  a = functools.cached_property(functools.partial(max, @@))",
        "0",
        "1",
    ),
    "a static object": (f"{_OWN}class X:\n  a = staticmethod(G(@@))", "1", "2"),
    "a cached method": (f"{_OWN}X = functools.lru_cache(G(@@).__call__)", "1", "2"),
    "an object for a method": (f"{_OWN}class X:\n  __call__ = G(@@)", "1", "2"),
    "no hash": ("class X:\n  __eq__ = lambda self, other: True\n  __hash__ = @@", "None", "object.__hash__"),
    "places of a match": ("class X:\n  __match_args__ = ('@@',)", "a", "b"),
    "metadata of a field": (
        "import dataclasses\n@dataclasses.dataclass\nclass X:\n  n: int = dataclasses.field(metadata={'a': @@})",
        "1",
        "2",
    ),
    "a distribution": ("import statistics\nX = statistics.NormalDist(@@)", "1", "2"),
    "where an attribute is": ("class O: pass\nX = O(); X.a = O(); X.a.b = 1; X.@@z = 2", "", "a."),
    "a base in another module": (f"{_MODULE}exec('class B:\\n  n = @@', m.__dict__)\nclass X(m.B): pass", "1", "2"),
}
_HELPER = """import sys, types
m = sys.modules['helpermod'] = types.ModuleType('helpermod')
exec('''import functools
def logged(g):
  @functools.wraps(g)
  def wrapper(*values): return g(*values)
  return wrapper
def times(n):
  def around(g):
    @functools.wraps(g)
    def wrapper(*values): return g(*values) * n
    return wrapper
  return around
def late(g):
  @functools.wraps(g)
  async def wrapper(*values): return await g(*values)
  return wrapper
def made(n):
  @functools.wraps(logged)
  def wrapper(*values): return n
  return wrapper
def renamed(g):
  class Wrapper:
    def __call__(self, *values): return g(*values)
  return functools.update_wrapper(Wrapper(), g)
def above(kind):
  return functools.update_wrapper(type(kind.__name__, (kind,), {}), kind, updated=())
''', m.__dict__)
import functools
"""
BELOW_DECORATORS = {  # own functions below decorators of another own module, which give the name and the module to their wrappers
    "a function below a decorator of another module": (f"{_HELPER}@m.logged\ndef X(r): return @@", "1", "2"),
    "an argument of a decorator of another module": (f"{_HELPER}@m.times(@@)\ndef X(r): return 1", "1", "2"),
    "a function below two decorators": (f"{_HELPER}@m.times(2)\n@m.logged\ndef X(r): return @@", "1", "2"),
    "a cached function below a decorator": (f"{_HELPER}@functools.lru_cache\n@m.logged\ndef X(r): return @@", "1", "2"),
    "a cached function above a decorator": (f"{_HELPER}@m.logged\n@functools.lru_cache\ndef X(r): return @@", "1", "2"),
    "an async function below a decorator": (f"{_HELPER}@m.late\nasync def X(r): return @@", "1", "2"),
    "a method below a decorator": (f"{_HELPER}class X:\n  @m.logged\n  def of(self): return @@", "1", "2"),
    "a static method below a decorator": (f"{_HELPER}class X:\n  @staticmethod\n  @m.logged\n  def of(): return @@", "1", "2"),
    "a function that another module made": (f"{_HELPER}X = m.made(@@)", "1", "2"),
    "a function below an object of another module": (f"{_HELPER}@m.renamed\ndef X(r): return @@", "1", "2"),
    "a class below a decorator of another module": (f"{_HELPER}@m.above\nclass X:\n  n = @@", "1", "2"),
    "which decorator of another module": (f"{_HELPER}@m.@@\ndef X(r): return 1", "logged", "renamed"),
    "a function in a package": (
        (
            "import sys, types\nfor n in ('kindeu.rates', 'kindus.rates'):\n  m = sys.modules[n] = types.ModuleType(n)\n"
            "  exec('def rate(): return 1', m.__dict__)\nX = sys.modules['@@.rates']"
        ),
        "kindeu",
        "kindus",
    ),
}
_CHECK = "  @pydantic.field_validator('n', mode='@@')\n  @classmethod\n  def check(cls, n): return n"
_MODEL = "import pydantic\nfrom typing import Annotated\n"
_ZONES = "import dateutil.tz, io, zoneinfo\nfrom importlib.resources import files\nZ = files('tzdata').joinpath('zoneinfo', 'Europe')\n"
_ICAL = "\\n".join(
    """BEGIN:VTIMEZONE TZID:X BEGIN:STANDARD DTSTART:19671029T020000 TZOFFSETFROM:-0400 TZOFFSETTO:-0@@00 TZNAME:E END:STANDARD
END:VTIMEZONE """.split()  # noqa: SIM905
)
OF_LIBRARIES = {  # what libraries build into own classes, or keep below objects of theirs
    "a model": (f"{_MODEL}class X(pydantic.BaseModel):\n  n: int = @@", "1", "2"),
    "a type of a model": (f"{_MODEL}class X(pydantic.BaseModel):\n  n: @@", "int", "str"),
    "a bound of a model": (f"{_MODEL}class X(pydantic.BaseModel):\n  n: Annotated[int, pydantic.Field(gt=@@)]", "1", "2"),
    "a name of a model": (f"{_MODEL}class X(pydantic.BaseModel):\n  n: int = pydantic.Field(0, alias='@@')", "a", "b"),
    "a check of a model": (
        f"{_MODEL}class X(pydantic.BaseModel):\n  n: int\n{_CHECK}",
        "before",
        "after",
    ),
    "a configuration of a model": (
        f"{_MODEL}class X(pydantic.BaseModel):\n  model_config = pydantic.ConfigDict(extra='@@')\n  n: int = 1",
        "allow",
        "forbid",
    ),
    "a model in a model": (
        f"{_MODEL}class N(pydantic.BaseModel):\n  n: int = @@\nclass X(pydantic.BaseModel):\n  n: N",
        "1",
        "2",
    ),
    "an object of a model": (f"{_MODEL}class M(pydantic.BaseModel):\n  n: int\nX = M(n=@@)", "1", "2"),
    "a data class of a library": (
        "import pydantic.dataclasses\n@pydantic.dataclasses.dataclass\nclass X:\n  n: int = @@",
        "1",
        "2",
    ),
    "an adapter of types": (f"{_MODEL}X = pydantic.TypeAdapter(list[@@])", "int", "str"),
    "a validator of a schema": ("import jsonschema\nX = jsonschema.Draft7Validator({'type': '@@'})", "object", "array"),
    "a function below a check of its arguments": ("import pydantic\n@pydantic.validate_call\ndef X(r): return @@", "1", "2"),
    "an object that keeps its hash": (
        "import attr\n@attr.s(frozen=True, cache_hash=True)\nclass C:\n  n = attr.ib()\nX = C('@@')\nhash(X)",
        "a",
        "b",
    ),
    "an own array of Python": ("import array\nclass A(array.array): pass\nX = A('i', [@@])", "1", "2"),
    "a function below an object of a library": ("import cachetools\n@cachetools.cached({})\ndef X(r): return @@", "1", "2"),
    "a function below a function of numpy": ("import numpy\nX = numpy.frompyfunc(lambda r: @@, 1, 1)", "1", "2"),
    "long numbers of numpy": ("import numpy\nX = numpy.longdouble('0.@@')", "1", "2"),
    "arrays of long numbers": ("import numpy\nX = numpy.array(['0.1', '0.@@'], dtype='longdouble')", "1", "2"),
    "an own path": ("import pathlib\nclass P(pathlib.PurePosixPath): pass\nX = P('@@')", "a", "b"),
    "an own time of pandas": ("import pandas\nclass P(pandas.Timedelta): pass\nX = P(@@)", "1", "2"),
    "an own offset of pandas": ("import pandas\nclass P(pandas.offsets.BDay): pass\nX = P(@@)", "1", "2"),
    "an own frame": ("import pandas\nclass P(pandas.DataFrame): pass\nX = P({'a': [@@]})", "1", "2"),
    "an attribute of an own frame": (
        "import pandas\nclass P(pandas.DataFrame):\n  _metadata = ['rate']\nX = P({'a': [1]})\nX.rate = @@",
        "1",
        "2",
    ),
    "a range of dateutil": (f"{_ZONES}X = dateutil.tz.tzrange('A', @@)", "3600", "7200"),
    "a zone of a calendar": (f"{_ZONES}X = dateutil.tz.tzical(io.StringIO('{_ICAL}')).get('X')", "5", "6"),
    "a zone of dateutil from a file": (f"{_ZONES}X = dateutil.tz.tzfile(Z.joinpath('@@').open('rb'), 'X')", "Berlin", "London"),
    "a zone from a file": (f"{_ZONES}X = zoneinfo.ZoneInfo.from_file(Z.joinpath('@@').open('rb'))", "Berlin", "London"),
    "a zone from a file with a name": (
        f"{_ZONES}X = zoneinfo.ZoneInfo.from_file(Z.joinpath('@@').open('rb'), key='X')",
        "Berlin",
        "London",
    ),
    "a type of Spark": ("from pyspark.sql.types import DecimalType\nX = DecimalType(10, @@)", "2", "4"),
    "names of a row of Spark": ("from pyspark.sql import Row\nX = Row(**{'@@': 1, 'c': 2})", "a", "b"),
    "a class of classes": ("import abc\nclass X(metaclass=@@): pass", "type", "abc.ABCMeta"),
    "flags beyond the declared": ("import enum\nclass X(enum.Flag, boundary=enum.@@):\n  A = 1", "KEEP", "STRICT"),
    "a hidden attribute of a member": (
        "import enum\nclass E(enum.Enum):\n  A = 1\n  def __init__(self, n): self._cost_ = [n + @@]\nX = E.A",
        "1",
        "2",
    ),
    "an attribute of an error": ("X = ValueError('a')\nX.code = @@", "1", "2"),
    "a note of an error": ("X = ValueError('a')\nX.__notes__ = ['@@']", "a", "b"),
    "what an error is about": ("X = ImportError('a', name='@@')", "b", "c"),
    "an attribute of a partial": ("import functools\nX = functools.partial(int)\nX.code = @@", "1", "2"),
    "a new type": ("import typing\nX = typing.NewType('A', @@)", "int", "str"),
    "a cookie": ("import http.cookies\nX = http.cookies.SimpleCookie('a=@@')", "1", "2"),
    "a cache that tells types apart": ("import functools\nX = functools.lru_cache(typed=@@)(int)", "True", "False"),
    "an own set whose items are hidden": ("class S(set):\n  def __iter__(self): return iter(())\nX = S('@@')", "a", "b"),
}
_INDEX = "import pandas\nX = pandas."
KINDS |= {  # what pandas keeps beside values
    "the name of an index": (f"{_INDEX}Index([1], name='@@')", "a", "b"),
    "the name of an index of a series": (f"{_INDEX}Series([1], index=pandas.Index([1], name='@@'))", "a", "b"),
    "the name of an index of a frame": (f"{_INDEX}DataFrame({{'a': [1]}}, index=pandas.Index([1], name='@@'))", "a", "b"),
    "the name of columns": (f"{_INDEX}DataFrame({{'a': [1]}})\nX.columns.name = '@@'", "a", "b"),
    "the names of levels": (f"{_INDEX}Series([1], index=pandas.MultiIndex.from_tuples([(1, 2)], names=['a', '@@']))", "b", "c"),
    "the type of a level": (f"{_INDEX}MultiIndex.from_arrays([[1], pandas.Index([2], dtype='@@')])", "int64", "int32"),
    "the frequency of times": (f"{_INDEX}DatetimeIndex(['2024-01-01', '2024-01-02', '2024-01-03'], freq=@@)", "None", "'D'"),
    "the frequency of an array of times": (f"{_INDEX}DatetimeIndex(['2024-01-01', '2024-01-02'], freq=@@).array", "None", "'D'"),
    "the frequency of rows": (
        f"{_INDEX}Series([1, 2], index=pandas.timedelta_range('0 s', '1 s', freq='s'))\n@@",
        "",
        "X.index.freq = None",
    ),
    "whether labels are unique": (f"{_INDEX}Series([1]).set_flags(allows_duplicate_labels=@@)", "True", "False"),
}
_HIDES = "import collections, datetime, functools\nclass H:\n  def __getattr__(self, name): raise KeyError(name)\n"
for _base, _given in {  # an object that has no other attribute says so by a KeyError
    "object": "",
    "list": "[@@]",
    "tuple": "[@@]",
    "dict": "a=@@",
    "set": "[@@]",
    "int": "@@",
    "ValueError": "@@",
    "datetime.time": "@@",
    "collections.deque": "[@@]",
    "collections.UserDict": "a=@@",
    "functools.partial": "len, @@",
}.items():
    KINDS[f"own attributes of {_base}"] = (f"{_HIDES}class C(H, {_base}): pass\nX = C({_given})\nX.n = @@", "1", "2")
KINDS |= {
    "a dict whose keys are attributes": ("class C(dict):\n  __getattr__ = dict.__getitem__\nX = C(n=@@)", "1", "2"),
    "attributes of a wrapper": (f"{_HIDES}class C(H):\n  __wrapped__ = len\nX = C()\nX.n = @@", "1", "2"),
    "attributes of a class": (
        "class M(type):\n  def __getattr__(cls, name): raise KeyError(name)\nclass X(metaclass=M): n = @@",
        "1",
        "2",
    ),
    "a method of an own logger": ("import logging\nclass L(logging.Logger):\n  def rate(self): return @@\nX = L('a')", "1", "2"),
}
KINDS |= BELOW_DECORATORS | OF_LIBRARIES
_TWO = {  # two values, of which a third name is one: A or B
    "objects": f"{_OWN}A, B = G(1), G(2)",
    "data classes": "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n  n: int\nA, B = C(1), C(2)",
    "methods": f"{_OWN}A, B = G(1).__call__, G(2).__call__",
    "functions": "def A(r): return 1\ndef B(r): return 2",
    "lambdas": "A = lambda r: 1\nB = lambda r: 2",
    "classes": "class A: n = 1\nclass B: n = 2",
    "partials": f"{_OWN}A, B = functools.partial(G(1)), functools.partial(G(2))",
    "lists": "A, B = [], []",
    "sentinels": "A, B = object(), object()",
    "members": "import enum\nclass E(enum.Enum):\n  A = 1\n  B = 2\nA, B = E.A, E.B",
}
for _kind, _two in _TWO.items():
    KINDS[f"one of two {_kind} again"] = (f"{_two}\nX = dict(a=A, b=B, c=@@)", "A", "B")
_ZONE = (
    "import datetime as dt\nclass Z(dt.tzinfo):\n  def __init__(self, h): self.h = h\n"
    "  def utcoffset(self, _): return dt.timedelta(hours=self.h)\n  def dst(self, _): return None\n"
)
for _kind, _value in {
    "an own zone": "Z(@@)",
    "a time of an own zone": "dt.datetime(2020, 1, 1, tzinfo=Z(@@))",
    "a time of day of an own zone": "dt.time(1, tzinfo=Z(@@))",
    "a zone": "dt.timezone(dt.timedelta(hours=@@))",
    "a time of a zone": "dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=@@)))",
    "one of two times": "dt.datetime(2020, 1, 1, fold=@@ % 2)",
    "an own time of an own zone": "type('D', (dt.datetime,), {'__module__': __name__})(2020, 1, 1, tzinfo=Z(@@))",
}.items():
    KINDS[_kind] = (f"{_ZONE}X = {_value}", "1", "2")

_HOLDER = "class H:\n  def __init__(self, x): self.x = x\n  def __call__(self, r): return self.x\n"
_TAKES = "import functools\ndef take(x, r=None): return x\n"
PLACES = {
    "a global": "def f(r): return X",
    "a default": "def f(r, x=X): return x",
    "a named default": "def f(r, *, x=X): return x",
    "a closure": "def make(x):\n  def f(r): return x\n  return f\nf = make(X)",
    "a dict": "D = {'x': X}\ndef f(r): return D['x']",
    "a list": "L = [1, X]\ndef f(r): return L[1]",
    "a list in a closure": "def make(x):\n  def f(r): return x\n  return f\nf = make([1, X])",
    "a list in a dict in a tuple": "T = ({'x': [X]},)\ndef f(r): return T",
    "an attribute": f"{_HOLDER}f = H(X)",
    "an attribute of a global": f"{_HOLDER}O = H(X)\ndef f(r): return O.x",
    "an attribute of what a function captured": f"{_HOLDER}def f(r, o=H([X])): return o.x",
    "an attribute of a class": "class C:\n  x = X\ndef f(r): return C.x",
    "an attribute of the function": "def f(r): return f.x\nf.x = X",
    "a partial": f"{_TAKES}f = functools.partial(take, X)",
    "a partial by name": f"{_TAKES}P = functools.partial(take, x=X)\ndef f(r): return P(r=r)",
}
SOME_PLACES = ("a global", "a list in a dict in a tuple", "an attribute of a class")


def kinds_at(place: str) -> list[str]:
    """The kinds of values that are tried at a place; slow kinds are tried at a few places only."""
    return [kind for kind in KINDS if place in SOME_PLACES or not (kind in OF_LIBRARIES or kind in BELOW_DECORATORS)]


USED_BEFORE = """
import decimal, functools, json, random, re, numpy, pandas, pyarrow.compute
re.sub("zz+", "", "a"); re.match("yy+", "")
random.seed(5); random.random(); decimal.getcontext().prec = 9
pandas.to_datetime(["2020-01-01"] * 100); pandas.set_option("display.max_rows", 7); numpy.set_printoptions(precision=2)
pyarrow.compute.split_pattern(pyarrow.array(["a b"]), " ")
"""


NAMES = ("usermod", "__main__", "queue")  # of a module; one has the name of a module of Python


def digest_in_module(text: str, used: bool = False, name: str = NAMES[0]) -> str:
    """The digest of the function f of a module of this text; `used`: after its X, and f, have been called, if they can be."""
    module, other = types.ModuleType(name), sys.modules.get(name)
    module.__file__ = f"/home/me/{name.strip('_')}.py"
    sys.modules[name] = module
    try:
        exec(compile(text, module.__file__, "exec"), module.__dict__)
        for call in (module.__dict__.get("X"), module.f):
            if used and not isinstance(call, type) and callable(call):
                with contextlib.suppress(Exception):  # it takes something else
                    call(1)
        return digest_of(module.f)
    finally:
        if other is not None:
            sys.modules[name] = other


def digests(used: bool = False, name: str = NAMES[0]) -> dict[str, str]:
    """One of each kind at each place."""
    return {
        f"{kind} in {place}": digest_in_module(f"{text.replace('@@', version)}\n{function}\n", used, name)
        for place, function in PLACES.items()
        for kind in kinds_at(place)
        for text, version, _ in [KINDS[kind]]
    }


@pytest.mark.parametrize("place", PLACES)
def test_a_change_is_noticed_wherever_it_is_captured(place: str) -> None:
    """Of every kind of value, at every place."""
    function = PLACES[place]
    found = {
        kind: [digest_in_module(f"{text.replace('@@', version)}\n{function}\n") for version in versions]
        for kind in kinds_at(place)
        for text, *versions in [KINDS[kind]]
    }
    assert [kind for kind, (one, other) in found.items() if one == other] == []


def test_a_restart_that_changed_nothing_is_no_change() -> None:
    """
    In processes that hash otherwise, that started the program in another way, as `python FILE` and `streamkit run FILE` do,
    and where the libraries, and the functions themselves, have been used before.
    """
    program = "import json, sys\n{}from tests.unit.plan.test_captured_kinds import digests\nprint(json.dumps(digests({}, {!r})))"
    first, again = (
        subprocess.Popen(
            [sys.executable, "-c", program.format(before, used, name)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for before, used, name, seed in (("", False, NAMES[0], "1"), (USED_BEFORE, True, NAMES[1], "2"))
    )
    one, other = (json.loads(process.communicate()[0]) for process in (first, again))
    assert len(one) == sum(len(kinds_at(place)) for place in PLACES)
    assert [name for name in one if one[name] != other[name]] == []


def test_equal_arrays_are_equal_however_they_lie_in_memory() -> None:
    """By columns or by rows, in chunks, behind a slice, in other blocks."""
    rows = np.arange(6).reshape(2, 3)
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    pieces = pd.concat([frame[["a"]], frame[["b"]]], axis=1)
    numbers = pa.array([1, None, 3])
    equal = [
        (rows, np.asfortranarray(rows)),
        (np.ma.masked_equal(rows, 1), np.ma.masked_equal(np.asfortranarray(rows), 1)),
        (rows[:, ::2], rows[:, ::2].copy()),
        (frame, pieces),
        (frame["a"], pd.Series([1, 2], name="a")),
        (numbers, pa.array([7, 1, None, 3])[1:]),
        (pa.chunked_array([[1], [2]]), pa.chunked_array([[1, 2]])),
        (pa.table({"a": numbers}), pa.concat_tables([pa.table({"a": numbers[:1]}), pa.table({"a": numbers[1:]})])),
    ]
    other = [rows + 1, rows.T, rows.astype(float), frame.T, frame.rename(columns={"a": "c"}), pa.array([1, 2, 3])]
    for make in (using, Rate, lambda value: using({"a": [value]})):
        assert [place for place, (one, same) in enumerate(equal) if digest_of(make(one)) != digest_of(make(same))] == []
        assert len({digest_of(make(value)) for value in [*other, *(one for one, _ in equal)]}) == len(other) + len(equal)


UNCHANGED = {  # texts that do the same, however often f has run, and whatever the module is called
    "a logger": "import logging\ndef f(r): return logging.getLogger(__name__)",
    "a global logger": "import logging\nX = logging.getLogger(__name__)\ndef f(r): return X.isEnabledFor(10), X.debug('a')",
    "a method of a logger": "import logging\nX = logging.getLogger(__name__).debug\ndef f(r): return X('a')",
    "a logger of another name": "import logging\nX = [logging.getLogger(__name__), logging.getLogger(@@ 'a')]\ndef f(r): return X",
    "an adapter of a logger": "import logging\nX = logging.LoggerAdapter(logging.getLogger(__name__), {})\ndef f(r): return X.debug('a')",
    "an own logger": (
        "import logging\nclass L(logging.Logger): pass\nX = L(__name__)\nX.addHandler(logging.StreamHandler())\n"
        "def f(r): return X.isEnabledFor(10), X.debug('a')"
    ),
    "a local class": "def f(r):\n  class C:\n    @@\n    N = 1\n    try: M = r\n    except ValueError: M = 2\n  return C",
    "flags": "import enum\nclass P(enum.IntFlag):\n  R = 4\n  W = 2\ndef f(r): return P.R | P.W, ~P.R",
    "a context of decimals": "import decimal\nX = decimal.Context(prec=3)\ndef f(r): return X.divide(1, 3)",
    "a cached property": "import functools\nclass C:\n  @functools.cached_property\n  def n(self): return [1]\nX = C()\ndef f(r): return X.n",
    "a protocol": "import typing\nclass P(typing.Protocol):\n  n = 1\nclass C(P): pass\ndef f(r): return C()",
    "a name of an attribute": 'def f(r): return r.strip()\nstrip = "@@"',
    "objects of the process": "from os import environ\nfrom sys import argv, path, modules\ndef f(r): return environ, argv, path, modules",
    "an own path that is a key": "import pathlib\nclass P(pathlib.PurePosixPath): pass\nX = P('a/b')\ndef f(r): return {X: X.name}",
    "an own frame that was read": (
        "import pandas\nclass P(pandas.DataFrame): pass\nX = P({'a': [1]}, index=['x'])\n"
        "def f(r): return X.loc['x'].a, X.a.sum(), X['a'], X.index.is_unique"
    ),
    "an own time of pandas that was read": (
        "import pandas\nclass P(pandas.Timedelta): pass\nX = P(1)\ndef f(r): return repr(X), hash(X), X.components"
    ),
    "a model that was used": (
        "import pydantic\nclass M(pydantic.BaseModel):\n  n: int = 1\n  @pydantic.field_validator('n')\n  @classmethod\n"
        "  def check(cls, n): return n\ndef f(r):\n  m = M(n=2)\n  m.n = 3\n  return m.model_dump(), M.model_json_schema()"
    ),
    "a validator that was used": (
        "import jsonschema\nX = jsonschema.Draft7Validator({'type': 'object'})\ndef f(r): return X.is_valid({}), X.is_valid([])"
    ),
    "a cache of a library": "import cachetools\n@cachetools.cached({})\ndef g(r): return r\ndef f(r): return g(r)",
    "equal objects in a set": "class C: pass\nA, B = C(), C()\nS = {A, B}\ndef f(r, s=S): return s, A, B",
}


def test_a_second_start_and_other_starts_are_no_change() -> None:
    """Whatever the function did before, and if it runs as a program, in a notebook, or from a file named like a module of Python."""
    for kind, text in UNCHANGED.items():
        found = {digest_in_module(text.replace("@@", doc), doc != "", name) for name in NAMES for doc in ("", "'doc'")}
        os.environ["STREAMKIT_TEST_OF_DIGESTS"] = kind
        assert found == {digest_in_module(text.replace("@@", "'other'"))}, kind
    del os.environ["STREAMKIT_TEST_OF_DIGESTS"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_change_is_noticed_whatever_the_module_is_called(name: str) -> None:
    """Also in a file that is named like a module of Python."""
    assert digest_in_module("def f(r): return 1", name=name) != digest_in_module("def f(r): return 2", name=name)
    assert digest_in_module("class X: n = 1\ndef f(r): return X", name=name) != digest_in_module(
        "class X: n = 2\ndef f(r): return X", name=name
    )


def test_chains_of_any_length_are_told() -> None:
    """Objects that hold each other, and functions that call each other."""
    objects = "class C:\n  def __init__(self, x): self.x = x\nX = C(@@)\nfor n in range(600): X = C([X])\ndef f(r): return X"
    functions = "".join(f"def f{n}(r): return f{n + 1}(r)\n" for n in range(400)) + "f400 = lambda r: @@\ndef f(r): return f0(r)"
    for text in (objects, functions):
        one, again, other = (digest_in_module(text.replace("@@", version)) for version in "112")
        assert one == again != other
    with pytest.raises(TopologyError, match="sets within sets"):
        digest_in_module("X = frozenset()\nfor n in range(5000): X = frozenset((X,))\ndef f(r): return X")
