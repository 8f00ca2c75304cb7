"""Numbers: rounding, arithmetic, roots and angles, bits."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, recorded

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bit_count",
    "bit_get",
    "bitwiseNOT",
    "bitwise_not",
    "bround",
    "cbrt",
    "ceil",
    "ceiling",
    "cos",
    "cosh",
    "cot",
    "csc",
    "degrees",
    "e",
    "exp",
    "expm1",
    "factorial",
    "floor",
    "getbit",
    "hypot",
    "ln",
    "log",
    "log1p",
    "log2",
    "log10",
    "nanvl",
    "negate",
    "negative",
    "nullifzero",
    "pi",
    "pmod",
    "positive",
    "pow",
    "power",
    "radians",
    "rint",
    "round",
    "sec",
    "shiftLeft",
    "shiftRight",
    "shiftRightUnsigned",
    "shiftleft",
    "shiftright",
    "shiftrightunsigned",
    "sign",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "toDegrees",
    "toRadians",
    "try_add",
    "try_divide",
    "try_mod",
    "try_multiply",
    "try_subtract",
    "width_bucket",
    "zeroifnull",
]


def abs(column: Column | str) -> Column:
    """The absolute value."""
    return recorded("abs", column)


def negate(column: Column | str) -> Column:
    """The value with the other sign."""
    return recorded("negate", column)


negative = negate


def round(column: Column | str, scale: int | None = None) -> Column:
    """The number rounded to `scale` digits behind the point (before it, if negative); a tie goes away from zero."""
    return recorded("round", column, *given(scale))


def bround(column: Column | str, scale: int | None = None) -> Column:
    """As `round`; a tie goes to the even digit."""
    return recorded("bround", column, *given(scale))


def ceil(column: Column | str, scale: int | None = None) -> Column:
    """The smallest whole number that is not below; with `scale`, a decimal of so many digits behind the point."""
    return recorded("ceil", column, *given(scale))


ceiling = ceil


def floor(column: Column | str, scale: int | None = None) -> Column:
    """The largest whole number that is not above; with `scale`, a decimal of so many digits behind the point."""
    return recorded("floor", column, *given(scale))


def log(base: Column | str | float, column: Column | str | None = None) -> Column:
    """The logarithm of the second to the base of the first; of one argument the natural logarithm. Null where there is none."""
    return recorded("log", base, *given(column))


def e() -> Column:
    """Euler's number."""
    return recorded("e")


def pi() -> Column:
    """The circle's number."""
    return recorded("pi")


def width_bucket(value: Column | str, low: Column | str, high: Column | str, buckets: Column | str | int) -> Column:
    """The number of the bucket the value falls into, of `buckets` of one width between `low` and `high`; 0 before, one more behind."""
    return recorded("width_bucket", value, low, high, buckets)


def shiftleft(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the left."""
    return recorded("shiftleft", column, constant(bits))


def shiftright(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the right; the sign stays."""
    return recorded("shiftright", column, constant(bits))


def shiftrightunsigned(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the right; zeros come from the left."""
    return recorded("shiftrightunsigned", column, constant(bits))


def getbit(column: Column | str, place: Column | str | int) -> Column:
    """The bit at a place, counted from the right and 0."""
    return recorded("getbit", column, place)


bit_get = getbit


def sqrt(column: Column | str) -> Column:
    """The square root; NaN of a negative number."""
    return recorded("sqrt", column)


def cbrt(column: Column | str) -> Column:
    """The cube root."""
    return recorded("cbrt", column)


def exp(column: Column | str) -> Column:
    """E to the power of the number."""
    return recorded("exp", column)


def expm1(column: Column | str) -> Column:
    """E to the power of the number, less one."""
    return recorded("expm1", column)


def ln(column: Column | str) -> Column:
    """The natural logarithm; null where there is none."""
    return recorded("ln", column)


def log2(column: Column | str) -> Column:
    """The logarithm to the base of 2; null where there is none."""
    return recorded("log2", column)


def log10(column: Column | str) -> Column:
    """The logarithm to the base of 10; null where there is none."""
    return recorded("log10", column)


def log1p(column: Column | str) -> Column:
    """The natural logarithm of the number and one; null where there is none."""
    return recorded("log1p", column)


def sin(column: Column | str) -> Column:
    """The sine of an angle in radians."""
    return recorded("sin", column)


def cos(column: Column | str) -> Column:
    """The cosine of an angle in radians."""
    return recorded("cos", column)


def tan(column: Column | str) -> Column:
    """The tangent of an angle in radians."""
    return recorded("tan", column)


def asin(column: Column | str) -> Column:
    """The angle in radians that has this sine."""
    return recorded("asin", column)


def acos(column: Column | str) -> Column:
    """The angle in radians that has this cosine."""
    return recorded("acos", column)


def atan(column: Column | str) -> Column:
    """The angle in radians that has this tangent."""
    return recorded("atan", column)


def sinh(column: Column | str) -> Column:
    """The hyperbolic sine."""
    return recorded("sinh", column)


def cosh(column: Column | str) -> Column:
    """The hyperbolic cosine."""
    return recorded("cosh", column)


def tanh(column: Column | str) -> Column:
    """The hyperbolic tangent."""
    return recorded("tanh", column)


def asinh(column: Column | str) -> Column:
    """The inverse hyperbolic sine."""
    return recorded("asinh", column)


def acosh(column: Column | str) -> Column:
    """The inverse hyperbolic cosine."""
    return recorded("acosh", column)


def atanh(column: Column | str) -> Column:
    """The inverse hyperbolic tangent."""
    return recorded("atanh", column)


def sec(column: Column | str) -> Column:
    """The secant of an angle in radians."""
    return recorded("sec", column)


def csc(column: Column | str) -> Column:
    """The cosecant of an angle in radians."""
    return recorded("csc", column)


def cot(column: Column | str) -> Column:
    """The cotangent of an angle in radians."""
    return recorded("cot", column)


def degrees(column: Column | str) -> Column:
    """Radians as degrees."""
    return recorded("degrees", column)


def radians(column: Column | str) -> Column:
    """Degrees as radians."""
    return recorded("radians", column)


def rint(column: Column | str) -> Column:
    """The nearest whole number as a double; of two, the even one."""
    return recorded("rint", column)


def signum(column: Column | str) -> Column:
    """1.0, 0.0 or -1.0, by the sign."""
    return recorded("signum", column)


def sign(column: Column | str) -> Column:
    """1.0, 0.0 or -1.0, by the sign."""
    return recorded("sign", column)


def factorial(column: Column | str) -> Column:
    """The factorial of 0 to 20; null of others."""
    return recorded("factorial", column)


def positive(column: Column | str) -> Column:
    """The number as it is."""
    return recorded("positive", column)


def bit_count(column: Column | str) -> Column:
    """How many bits are set."""
    return recorded("bit_count", column)


def bitwise_not(column: Column | str) -> Column:
    """The integer with every bit turned."""
    return recorded("bitwise_not", column)


def zeroifnull(column: Column | str) -> Column:
    """0 where the value is null."""
    return recorded("zeroifnull", column)


def nullifzero(column: Column | str) -> Column:
    """Null where the value is 0."""
    return recorded("nullifzero", column)


def pow(base: Column | str | float, exponent: Column | str | float) -> Column:
    """The first to the power of the second."""
    return recorded("pow", base, exponent)


def atan2(y: Column | str | float, x: Column | str | float) -> Column:
    """The angle in radians of the point (x, y)."""
    return recorded("atan2", y, x)


def hypot(a: Column | str | float, b: Column | str | float) -> Column:
    """The length of the diagonal of a rectangle."""
    return recorded("hypot", a, b)


def pmod(dividend: Column | str | float, divisor: Column | str | float) -> Column:
    """The remainder, made positive."""
    return recorded("pmod", dividend, divisor)


def nanvl(value: Column | str, other: Column | str) -> Column:
    """The second where the first is NaN."""
    return recorded("nanvl", value, other)


def try_add(left: Column | str, right: Column | str) -> Column:
    """The sum; null where it does not fit."""
    return recorded("try_add", left, right)


def try_subtract(left: Column | str, right: Column | str) -> Column:
    """The difference; null where it does not fit."""
    return recorded("try_subtract", left, right)


def try_multiply(left: Column | str, right: Column | str) -> Column:
    """The product; null where it does not fit."""
    return recorded("try_multiply", left, right)


def try_divide(left: Column | str, right: Column | str) -> Column:
    """The quotient; null where the divisor is 0."""
    return recorded("try_divide", left, right)


def try_mod(left: Column | str, right: Column | str) -> Column:
    """The remainder; null where the divisor is 0."""
    return recorded("try_mod", left, right)


power = pow
bitwiseNOT = bitwise_not
shiftLeft = shiftleft
shiftRight = shiftright
shiftRightUnsigned = shiftrightunsigned
toDegrees = degrees
toRadians = radians
