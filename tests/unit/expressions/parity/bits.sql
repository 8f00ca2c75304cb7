-- the bits of integers: what is compared with Spark, one expression a line
i32 & j32
i8 | i32
i64 ^ i32
~i32
~i8
i32 & 255
i8 & i16
i64 | 1
i32 ^ NULL
f64 & 1
s & 1
number & 1
~dec
shiftleft(i32, small)
shiftleft(i64, 33)
shiftright(i32, small)
shiftright(i64, i8)
shiftrightunsigned(i32, 3)
shiftrightunsigned(i64, small)
shiftleft(i8, 2)
shiftleft(i32, 35)
shiftleft(number, 1)
bit_count(i32)
bit_count(i64)
bit_count(b)
bit_count(i8)
bit_count(f64)
getbit(i32, 3)
getbit(i64, small)
getbit(i8, 7)
getbit(i8, 8)
bit_get(i32, small)
i32 << 2
i64 >> small
i32 & j32 | small
i32 | j32 & small
i32 ^ j32 | small
i32 + j32 & small
