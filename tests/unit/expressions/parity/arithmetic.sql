-- arithmetic: what is compared with Spark, one expression a line
i8 + i8
i16 + small
i32 + j32
i64 + j64
f32 + f32
f64 + g64
i32 + f64
dec + dec
ced + dec
big + ced
dec + small
i32 + 1
i64 + 1.5
dec + f64
i8 - i8
i16 - small
i32 - j32
i64 - j64
f32 - f32
f64 - g64
i32 - f64
dec - dec
ced - dec
big - ced
dec - small
i32 - 1
i64 - 1.5
dec - f64
i8 * i8
i16 * small
i32 * j32
i64 * j64
f32 * f32
f64 * g64
i32 * f64
dec * dec
ced * dec
big * ced
dec * small
i32 * 1
i64 * 1.5
dec * f64
i32 / j32
i64 / j64
f64 / g64
i32 / 2
1 / small
f32 / small
i8 / i8
i32 % j32
i64 % j64
f64 % g64
i32 % 2
1 % small
f32 % small
i8 % i8
dec / dec
dec / small
dec / 3
big / dec
1 / dec
i64 DIV small
i32 DIV j32
pmod(i32, small)
pmod(f64, 3)
pmod(i64, -7)
-i8
-i32
-i64
-f64
-dec
+i32
abs(i8)
abs(i64)
abs(f64)
abs(dec)
i32 + NULL
(i32 + 1) * 2 - j32
i64 % 0
f64 / 0
-(-small)
dec % 3
dec % ced
pmod(dec, small)
pmod(dec, -2.5)
ced % dec
dec DIV 3
ced DIV dec
ced * ced
ced * big
big % 7
mod(dec, 0)
big DIV small
