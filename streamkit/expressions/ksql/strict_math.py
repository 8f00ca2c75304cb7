"""Functions of angles and exponents to the last bit of Java's StrictMath.

ksqlDB calls Java's Math, whose hyperbolic and inverse functions are StrictMath's up to Java 23.
StrictMath follows the steps of fdlibm (Sun, 1993), and so does this module, on whole arrays.
Each product and sum here is rounded as written there, so its order must not change.
All of them work on the size of a number, and give the result its sign at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_BLOCK = 8192  # numbers that are computed at once: what is between the steps stays in the processor's cache

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INVERSE_LN2 = 1.44269504088896338700e00
_HALF_PI, _HALF_PI_LOW = 1.57079632679489655800e00, 6.12323399573676603587e-17
_PI, _PI_LOW = 3.1415926535897931160e00, 1.2246467991473531772e-16
_QUARTER_PI = 7.85398163397448278999e-01


def _of_high_word(word: int) -> float:
    """The number whose bits are this word and 32 zeros; the steps compare the high word alone."""
    return float(np.int64(word << 32).view(np.float64))


_HALF_LN2 = _of_high_word(0x3FD62E43)
_EXPONENT_MAX = _of_high_word(0x40862E42)  # e to the power of more may be no double
_HYPERBOLIC_MAX = float(np.int64(0x408633CE8FB9F87D).view(np.float64))  # the last number whose sinh is finite


def _polynomial(x: np.ndarray, *coefficients: float) -> np.ndarray:
    """The sum of powers of x, the constant first, in Horner's order."""
    found = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        found += coefficient
        found *= x
    found += coefficients[0]
    return found


def _in_blocks(compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The same function, which goes through long arrays in blocks."""

    def computed(*numbers: np.ndarray) -> np.ndarray:
        found = np.empty(len(numbers[0]))
        with np.errstate(all="ignore"):
            for start in range(0, len(found), _BLOCK):
                found[start : start + _BLOCK] = compute(*(each[start : start + _BLOCK] for each in numbers))
        return found

    computed.__doc__ = compute.__doc__
    return computed


def _exponential(x: np.ndarray) -> np.ndarray:
    """Powers of e, with exponents from ln(2) / 2 to ln of the greatest double: 2**k * e**r, with r near 0."""
    times = np.trunc(_INVERSE_LN2 * x + 0.5)
    high, low = x - times * _LN2_HIGH, times * _LN2_LOW
    r = high - low
    t = r * r
    c = r - t * _polynomial(
        t,
        1.66666666666666019037e-01,
        -2.77777777770155933842e-03,
        6.61375632143793436117e-05,
        -1.65339022054652515390e-06,
        4.13813679705723846039e-08,
    )
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    return _scaled(y, times.astype(np.int64))


def _scaled(numbers: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The numbers by 2**k, where neither is subnormal: 2**1024 is no double, but a factor."""
    scaled: np.ndarray = (numbers.view(np.int64) + (k << 52)).view(np.float64)
    return scaled


def _exponential_less_one(x: np.ndarray) -> np.ndarray:
    """Powers of e less 1, with exponents from -2 to 44; each power of 2 has steps that lose no digits."""
    times = np.trunc(_INVERSE_LN2 * x + np.copysign(0.5, x))
    times[np.abs(x) < _HALF_LN2] = 0.0
    k = times.astype(np.int64)
    high, low = x - times * _LN2_HIGH, times * _LN2_LOW
    r = high - low
    c = (high - r) - low
    half = 0.5 * r
    square = r * half
    series = _polynomial(
        square,
        1.0,
        -3.33333333333331316428e-02,
        1.58730158725481460165e-03,
        -7.93650757867487942473e-05,
        4.00821782732936239552e-06,
        -2.01099218183624371326e-07,
    )
    t = 3.0 - series * half
    e = square * ((series - t) / (6.0 - r * t))
    least, most = k.min(initial=0), k.max(initial=0)
    if least == most == 0:
        whole: np.ndarray = r - (r * e - square)
        return whole
    near_zero = r - (r * e - square) if (k == 0).any() else None
    e = (r * (e - c) - c) - square
    rest = e - r
    part = _scaled(np.ones(len(k)), -k)  # 2**-k
    found = (1.0 - part) - rest
    if most >= 20:
        np.copyto(found, (r - (e + part)) + 1.0, where=k >= 20)
    if least <= -2 or most > 56:
        outer = (k <= -2) | (k > 56)
        found[outer] = 1.0 - rest[outer]
        found = _scaled(found, k)
        found[outer] -= 1.0
    else:
        found = _scaled(found, k)
    if (one := k == 1).any():
        np.copyto(found, np.where(r < -0.25, -2.0 * (e - (r + 0.5)), 1.0 - 2.0 * rest), where=one)
    if (minus_one := k == -1).any():
        np.copyto(found, -0.5 * rest - 0.5, where=minus_one)
    if near_zero is not None:
        np.copyto(found, near_zero, where=k == 0)
    return found


def _half_exponential(sizes: np.ndarray) -> np.ndarray:
    """Half of e to the power of numbers from 22 on: what sinh and cosh are there."""
    found = 0.5 * _exponential(np.minimum(sizes, _EXPONENT_MAX))
    beyond = sizes >= _EXPONENT_MAX
    if beyond.any():
        root = _exponential(0.5 * np.minimum(sizes[beyond], _HYPERBOLIC_MAX))
        found[beyond] = np.where(sizes[beyond] > _HYPERBOLIC_MAX, np.inf, (0.5 * root) * root)
    return found


def _signed(sizes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The sizes with the signs of the numbers."""
    signed: np.ndarray = np.copysign(sizes, numbers)
    return signed


@_in_blocks
def sinh(numbers: np.ndarray) -> np.ndarray:
    """The hyperbolic sine."""
    sizes = np.abs(numbers)
    t = _exponential_less_one(np.where(sizes < 22.0, sizes, 0.0))
    after = t + 1.0
    found = t + t / after
    if (small := sizes < 1.0).any():
        np.copyto(found, 2.0 * t - t * t / after, where=small)
    found *= 0.5
    np.copyto(found, sizes, where=sizes < 2.0**-28)
    large = sizes >= 22.0
    if large.any():
        found[large] = _half_exponential(sizes[large])
    found[np.isnan(numbers)] = np.nan
    return _signed(found, numbers)


@_in_blocks
def cosh(numbers: np.ndarray) -> np.ndarray:
    """The hyperbolic cosine."""
    sizes = np.abs(numbers)
    power = _exponential(np.clip(sizes, _HALF_LN2, 22.0))
    found = 0.5 * power + 0.5 / power
    small = sizes < _HALF_LN2
    if small.any():
        t = _exponential_less_one(sizes[small])
        w = 1.0 + t
        found[small] = 1.0 + (t * t) / (w + w)
    large = sizes >= 22.0
    if large.any():
        found[large] = _half_exponential(sizes[large])
    found[np.isnan(numbers)] = np.nan
    return found


@_in_blocks
def tanh(numbers: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent."""
    sizes = np.abs(numbers)
    settled = sizes < 22.0
    np.copyto(sizes, 0.0, where=~settled)
    beyond_one = sizes >= 1.0
    t = _exponential_less_one(np.where(beyond_one, 2.0 * sizes, -2.0 * sizes))
    found = np.where(beyond_one, 1.0 - 2.0 / (t + 2.0), -t / (t + 2.0))
    np.copyto(found, 1.0, where=~settled)
    found[np.isnan(numbers)] = np.nan
    return _signed(found, numbers)


def _arc_ratio(t: np.ndarray) -> np.ndarray:
    """(asin(s) - s) / s of the roots s of t, which are at most a half."""
    above = t * _polynomial(
        t,
        1.66666666666666657415e-01,
        -3.25565818622400915405e-01,
        2.01212532134862925881e-01,
        -4.00555345006794114027e-02,
        7.91534994289814532176e-04,
        3.47933107596021167570e-05,
    )
    below = _polynomial(
        t, 1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01, 7.70381505559019352791e-02
    )
    ratio: np.ndarray = above / below
    return ratio


def _without_low_word(numbers: np.ndarray) -> np.ndarray:
    """The numbers with their upper 21 bits alone, whose squares are exact."""
    cut: np.ndarray = (numbers.view(np.int64) & ~0xFFFFFFFF).view(np.float64)
    return cut


def _arc_parts(numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of a sine or a cosine: its size, the ratio of polynomials, and a square root, whose parts `w` and `c` together are more exact than it."""
    sizes = np.abs(numbers)
    t = np.where(sizes < 0.5, sizes * sizes, (1.0 - sizes) * 0.5)
    ratio = _arc_ratio(t)
    root = np.sqrt(t)
    w = _without_low_word(root)
    c = (t - w * w) / (root + w)
    return sizes, ratio, root, w, c


@_in_blocks
def asin(numbers: np.ndarray) -> np.ndarray:
    """The angle with this sine; NaN beyond -1 and 1."""
    sizes, ratio, root, w, c = _arc_parts(numbers)
    middle = _QUARTER_PI - ((2.0 * root * ratio - (_HALF_PI_LOW - 2.0 * c)) - (_QUARTER_PI - 2.0 * w))
    near_one = _HALF_PI - (2.0 * (root + root * ratio) - _HALF_PI_LOW)
    found = np.where(sizes >= _of_high_word(0x3FEF3333), near_one, middle)
    np.copyto(found, sizes + sizes * ratio, where=sizes < 0.5)
    return _signed(found, numbers)


@_in_blocks
def acos(numbers: np.ndarray) -> np.ndarray:
    """The angle with this cosine; NaN beyond -1 and 1."""
    sizes, ratio, root, w, c = _arc_parts(numbers)
    found: np.ndarray = 2.0 * (w + (ratio * root + c))
    np.copyto(found, _PI - 2.0 * (root + (ratio * root - _HALF_PI_LOW)), where=numbers <= -0.5)
    np.copyto(found, _HALF_PI - (numbers - (_HALF_PI_LOW - numbers * ratio)), where=sizes < 0.5)
    found[numbers == 1.0] = 0.0
    return found


# Below each bound the tangent is taken from a known angle: (a * x - b) / (c + d * x) is the rest's tangent.
_ATAN_BOUNDS = np.array([7 / 16, 11 / 16, 19 / 16, 39 / 16])
_ATAN_A = np.array([1.0, 2.0, 1.0, 1.0, 0.0])
_ATAN_B = np.array([0.0, 1.0, 1.0, 1.5, 1.0])
_ATAN_C = np.array([1.0, 2.0, 1.0, 1.0, 0.0])
_ATAN_D = np.array([0.0, 1.0, 1.0, 1.5, 1.0])
_ATAN_HIGH = np.array([0.0, 4.63647609000806093515e-01, _QUARTER_PI, 9.82793723247329054082e-01, _HALF_PI])
_ATAN_LOW = np.array([0.0, 2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17, _HALF_PI_LOW])


def _angle(sizes: np.ndarray) -> np.ndarray:
    """The angles with these tangents, which have no sign."""
    x = np.minimum(sizes, 2.0**66)
    part = np.zeros(len(x), np.intp)
    for bound in _ATAN_BOUNDS:
        part += x >= bound
    t = (_ATAN_A[part] * x - _ATAN_B[part]) / (_ATAN_C[part] + _ATAN_D[part] * x)
    z = t * t
    w = z * z
    odd = z * _polynomial(
        w,
        3.33333333333329318027e-01,
        1.42857142725034663711e-01,
        9.09088713343650656196e-02,
        6.66107313738753120669e-02,
        4.97687799461593236017e-02,
        1.62858201153657823623e-02,
    )
    even = w * _polynomial(
        w,
        -1.99999999998764832476e-01,
        -1.11111104054623557880e-01,
        -7.69187620504482999495e-02,
        -5.83357013379057348645e-02,
        -3.65315727442169155270e-02,
    )
    angle: np.ndarray = _ATAN_HIGH[part] - ((t * (odd + even) - _ATAN_LOW[part]) - t)
    return angle


@_in_blocks
def atan(numbers: np.ndarray) -> np.ndarray:
    """The angle with this tangent."""
    return _signed(_angle(np.abs(numbers)), numbers)


@_in_blocks
def atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The angle of the point (x, y)."""
    found = _angle(np.abs(y / x))
    left = np.signbit(x)
    zeros, endless = (y == 0) & (x == 0), np.isinf(y) & np.isinf(x)
    found[zeros] = 0.0
    np.copyto(found, _PI - (found - _PI_LOW), where=left)
    found[((x == 0) & (np.abs(y) > 0)) | (np.isinf(y) & np.isfinite(x))] = _HALF_PI
    found[endless] = np.where(left[endless], 3.0 * _QUARTER_PI, _QUARTER_PI)
    return _signed(found, y)


@_in_blocks
def cbrt(numbers: np.ndarray) -> np.ndarray:
    """The cube root: a third of the exponent, then a step each of Halley and Newton."""
    sizes = np.abs(numbers)
    subnormal = sizes < 2.0**-1022
    high = np.where(subnormal, sizes * 2.0**54, sizes).view(np.int64) >> 32
    t = (high // 3 + np.where(subnormal, 696219795, 715094163) << 32).view(np.float64)
    r = t * t / sizes
    s = 19 / 35 + r * t
    t = t * (5 / 14 + 45 / 28 / (s + 99 / 70 + -864 / 1225 / s))
    t = ((t.view(np.int64) >> 32) + 1 << 32).view(np.float64)
    s = t * t
    r = sizes / s
    w = t + t
    r = (r - t) / (w + r)
    found = t + t * r
    np.copyto(found, sizes, where=(sizes == 0) | ~np.isfinite(sizes))
    return _signed(found, numbers)
