-- What is compared with Spark, one expression a line; the columns are those of test_parity.py.

-- comparisons
i32 = j32
i32 != j32
i32 < j32
i32 <= j32
i32 > j32
i32 >= j32
i32 <=> j32
i8 = i64
i8 != i64
i8 < i64
i8 <= i64
i8 > i64
i8 >= i64
i8 <=> i64
f64 = g64
f64 != g64
f64 < g64
f64 <= g64
f64 > g64
f64 >= g64
f64 <=> g64
f32 = f64
f32 != f64
f32 < f64
f32 <= f64
f32 > f64
f32 >= f64
f32 <=> f64
f64 = 0
f64 != 0
f64 < 0
f64 <= 0
f64 > 0
f64 >= 0
f64 <=> 0
f64 = 'NaN'
f64 != 'NaN'
f64 < 'NaN'
f64 <= 'NaN'
f64 > 'NaN'
f64 >= 'NaN'
f64 <=> 'NaN'
1.5D = g64
1.5D != g64
1.5D < g64
1.5D <= g64
1.5D > g64
1.5D >= g64
1.5D <=> g64
s = t
s != t
s < t
s <= t
s > t
s >= t
s <=> t
s = 'abc'
s != 'abc'
s < 'abc'
s <= 'abc'
s > 'abc'
s >= 'abc'
s <=> 'abc'
b = c
b != c
b < c
b <= c
b > c
b >= c
b <=> c
d = e
d != e
d < e
d <= e
d > e
d >= e
d <=> e
ts = us
ts != us
ts < us
ts <= us
ts > us
ts >= us
ts <=> us
d = ts
d != ts
d < ts
d <= ts
d > ts
d >= ts
d <=> ts
ntz = ts
ntz != ts
ntz < ts
ntz <= ts
ntz > ts
ntz >= ts
ntz <=> ts
x = x'616263'
x != x'616263'
x < x'616263'
x <= x'616263'
x > x'616263'
x >= x'616263'
x <=> x'616263'
dec = ced
dec != ced
dec < ced
dec <= ced
dec > ced
dec >= ced
dec <=> ced
dec = 1.5
dec != 1.5
dec < 1.5
dec <= 1.5
dec > 1.5
dec >= 1.5
dec <=> 1.5
i32 = f64
i32 != f64
i32 < f64
i32 <= f64
i32 > f64
i32 >= f64
i32 <=> f64
i64 = f32
i64 != f32
i64 < f32
i64 <= f32
i64 > f32
i64 >= f32
i64 <=> f32
big = i64
big != i64
big < i64
big <= i64
big > i64
big >= i64
big <=> i64
i32 = NULL
i32 != NULL
i32 < NULL
i32 <= NULL
i32 > NULL
i32 >= NULL
i32 <=> NULL
d = '2013-01-01'
d != '2013-01-01'
d < '2013-01-01'
d <= '2013-01-01'
d > '2013-01-01'
d >= '2013-01-01'
d <=> '2013-01-01'
ts = '2013-01-05 12:34:56'
ts != '2013-01-05 12:34:56'
ts < '2013-01-05 12:34:56'
ts <= '2013-01-05 12:34:56'
ts > '2013-01-05 12:34:56'
ts >= '2013-01-05 12:34:56'
ts <=> '2013-01-05 12:34:56'

-- three-valued logic, nulls, branches
b AND c
b OR c
NOT b
b AND NULL
b OR NULL
b AND true
NOT (b OR c)
b = c OR b IS NULL
i32 IS NULL
s IS NOT NULL
isnan(f64)
isnan(f32)
coalesce(i32, j32, 0)
coalesce(s, t)
coalesce(nothing, i32)
nvl(i32, 1.5D)
nvl2(s, i32, j32)
nullif(i32, j32)
nullif(f64, g64)
ifnull(s, 'x')
if(b, i32, j32)
if(b, s, NULL)
CASE WHEN b THEN 1 WHEN c THEN 2 END
CASE WHEN b THEN 'x' ELSE s END
CASE i32 WHEN 1 THEN 'one' WHEN 0 THEN 'zero' ELSE 'many' END
CASE WHEN small != 0 THEN 10 / small ELSE 0 END
CASE WHEN small = 0 THEN 0 WHEN 10 % small = 1 THEN 1 ELSE 10 % small END
small != 0 AND 10 % small = 1
small = 0 OR 10 % small = 1
small IS NOT NULL AND 1 / small > 0
1 / small > 0 AND small != 0
coalesce(small, 1 / 0)
if(small = 0, NULL, 1 / small)
i32 + 1 / small
nvl(CAST(i32 AS DOUBLE), 1 / small)
small IN (1, 1 / small)
i32 IN (1, 2, 7)
i32 IN (1, NULL)
i32 NOT IN (1, 7)
s IN ('a', 'abc', '')
f64 IN (0, 1, 'NaN')
i32 IN (j32, 1)
d IN ('2013-01-01')
dec IN (1, 1.5, 2.5)
b IN (true)
x IN (x'616263')
i64 IN (i32, j64, NULL)
f64 IN (g64, NULL)
nothing IN (1)
i32 BETWEEN 0 AND 100
s BETWEEN 'a' AND 'b'
f64 BETWEEN g64 AND 100
ts BETWEEN '2013-01-01' AND us
i32 NOT BETWEEN j32 AND 5
greatest(i32, j32, 0)
least(f64, g64)
greatest(f64, g64, 1)
least(s, t)
greatest(NULL, i32)
greatest(d, e)
least(dec, ced)

-- arithmetic
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

-- casts
CAST(i8 AS TINYINT)
CAST(i8 AS SMALLINT)
CAST(i8 AS INT)
CAST(i8 AS BIGINT)
CAST(i8 AS FLOAT)
CAST(i8 AS DOUBLE)
CAST(i8 AS BOOLEAN)
CAST(i8 AS DECIMAL(10,2))
CAST(i8 AS DECIMAL(38,20))
CAST(i8 AS DECIMAL(5,0))
CAST(i8 AS STRING)
CAST(i32 AS TINYINT)
CAST(i32 AS SMALLINT)
CAST(i32 AS INT)
CAST(i32 AS BIGINT)
CAST(i32 AS FLOAT)
CAST(i32 AS DOUBLE)
CAST(i32 AS BOOLEAN)
CAST(i32 AS DECIMAL(10,2))
CAST(i32 AS DECIMAL(38,20))
CAST(i32 AS DECIMAL(5,0))
CAST(i32 AS STRING)
CAST(i64 AS TINYINT)
CAST(i64 AS SMALLINT)
CAST(i64 AS INT)
CAST(i64 AS BIGINT)
CAST(i64 AS FLOAT)
CAST(i64 AS DOUBLE)
CAST(i64 AS BOOLEAN)
CAST(i64 AS DECIMAL(10,2))
CAST(i64 AS DECIMAL(38,20))
CAST(i64 AS DECIMAL(5,0))
CAST(i64 AS STRING)
CAST(f32 AS TINYINT)
CAST(f32 AS SMALLINT)
CAST(f32 AS INT)
CAST(f32 AS BIGINT)
CAST(f32 AS FLOAT)
CAST(f32 AS DOUBLE)
CAST(f32 AS BOOLEAN)
CAST(f32 AS DECIMAL(10,2))
CAST(f32 AS DECIMAL(38,20))
CAST(f32 AS DECIMAL(5,0))
CAST(f32 AS STRING)
CAST(f64 AS TINYINT)
CAST(f64 AS SMALLINT)
CAST(f64 AS INT)
CAST(f64 AS BIGINT)
CAST(f64 AS FLOAT)
CAST(f64 AS DOUBLE)
CAST(f64 AS BOOLEAN)
CAST(f64 AS DECIMAL(10,2))
CAST(f64 AS DECIMAL(38,20))
CAST(f64 AS DECIMAL(5,0))
CAST(f64 AS STRING)
CAST(b AS TINYINT)
CAST(b AS SMALLINT)
CAST(b AS INT)
CAST(b AS BIGINT)
CAST(b AS FLOAT)
CAST(b AS DOUBLE)
CAST(b AS BOOLEAN)
CAST(b AS DECIMAL(10,2))
CAST(b AS DECIMAL(38,20))
CAST(b AS DECIMAL(5,0))
CAST(b AS STRING)
CAST(dec AS TINYINT)
CAST(dec AS SMALLINT)
CAST(dec AS INT)
CAST(dec AS BIGINT)
CAST(dec AS FLOAT)
CAST(dec AS DOUBLE)
CAST(dec AS BOOLEAN)
CAST(dec AS DECIMAL(10,2))
CAST(dec AS DECIMAL(38,20))
CAST(dec AS DECIMAL(5,0))
CAST(dec AS STRING)
CAST(ced AS TINYINT)
CAST(ced AS SMALLINT)
CAST(ced AS INT)
CAST(ced AS BIGINT)
CAST(ced AS FLOAT)
CAST(ced AS DOUBLE)
CAST(ced AS BOOLEAN)
CAST(ced AS DECIMAL(10,2))
CAST(ced AS DECIMAL(38,20))
CAST(ced AS DECIMAL(5,0))
CAST(ced AS STRING)
CAST(big AS TINYINT)
CAST(big AS SMALLINT)
CAST(big AS INT)
CAST(big AS BIGINT)
CAST(big AS FLOAT)
CAST(big AS DOUBLE)
CAST(big AS BOOLEAN)
CAST(big AS DECIMAL(10,2))
CAST(big AS DECIMAL(38,20))
CAST(big AS DECIMAL(5,0))
CAST(big AS STRING)
CAST(number AS TINYINT)
CAST(number AS SMALLINT)
CAST(number AS INT)
CAST(number AS BIGINT)
CAST(number AS FLOAT)
CAST(number AS DOUBLE)
CAST(number AS BOOLEAN)
CAST(number AS DECIMAL(10,2))
CAST(number AS DECIMAL(38,20))
CAST(number AS DECIMAL(5,0))
CAST(number AS STRING)
CAST(s AS DATE)
CAST(s AS TIMESTAMP)
CAST(s AS TIMESTAMP_NTZ)
CAST(s AS BINARY)
CAST(s AS STRING)
CAST(day AS DATE)
CAST(day AS TIMESTAMP)
CAST(day AS TIMESTAMP_NTZ)
CAST(day AS BINARY)
CAST(day AS STRING)
CAST(moment AS DATE)
CAST(moment AS TIMESTAMP)
CAST(moment AS TIMESTAMP_NTZ)
CAST(moment AS BINARY)
CAST(moment AS STRING)
CAST(d AS STRING)
CAST(d AS DATE)
CAST(d AS TIMESTAMP)
CAST(d AS TIMESTAMP_NTZ)
CAST(ts AS STRING)
CAST(ts AS DATE)
CAST(ts AS TIMESTAMP)
CAST(ts AS TIMESTAMP_NTZ)
CAST(ntz AS STRING)
CAST(ntz AS DATE)
CAST(ntz AS TIMESTAMP)
CAST(ntz AS TIMESTAMP_NTZ)
CAST(ts AS BIGINT)
CAST(ts AS INT)
CAST(ts AS DOUBLE)
CAST(i32 AS TIMESTAMP)
CAST(i64 AS TIMESTAMP)
CAST(nothing AS INT)
CAST(NULL AS DATE)
CAST('12' AS INT)
CAST('x' AS INT)
CAST(CAST(i64 AS STRING) AS BIGINT)
CAST(CAST(f64 AS STRING) AS DOUBLE)
CAST(CAST(ts AS STRING) AS TIMESTAMP)

-- text
upper(s)
lower(s)
length(s)
length(x)
char_length(t)
trim(s)
ltrim(s)
rtrim(s)
trim(BOTH 'ax ' FROM s)
trim(LEADING 'aA' FROM s)
trim(TRAILING 'c' FROM s)
trim(BOTH '' FROM s)
btrim(s)
btrim(s, 'xy')
concat(s, t)
concat(s, '-', i32)
s || t
concat_ws('-', s, t)
concat_ws(t, s, 'x', s)
concat_ws(NULL, s)
concat_ws('-')
concat(x, x)
left(s, 2)
left(s, -1)
right(s, 2)
right(s, 0)
right(s, NULL)
substring(s, -400, -1)
substring(s, -400, 0)
substring(s, -400, 1)
substring(s, -400, 3)
substring(s, -400, 1000)
substring(s, -5, -1)
substring(s, -5, 0)
substring(s, -5, 1)
substring(s, -5, 3)
substring(s, -5, 1000)
substring(s, -3, -1)
substring(s, -3, 0)
substring(s, -3, 1)
substring(s, -3, 3)
substring(s, -3, 1000)
substring(s, -1, -1)
substring(s, -1, 0)
substring(s, -1, 1)
substring(s, -1, 3)
substring(s, -1, 1000)
substring(s, 0, -1)
substring(s, 0, 0)
substring(s, 0, 1)
substring(s, 0, 3)
substring(s, 0, 1000)
substring(s, 1, -1)
substring(s, 1, 0)
substring(s, 1, 1)
substring(s, 1, 3)
substring(s, 1, 1000)
substring(s, 2, -1)
substring(s, 2, 0)
substring(s, 2, 1)
substring(s, 2, 3)
substring(s, 2, 1000)
substring(s, 5, -1)
substring(s, 5, 0)
substring(s, 5, 1)
substring(s, 5, 3)
substring(s, 5, 1000)
substring(s, 1000, -1)
substring(s, 1000, 0)
substring(s, 1000, 1)
substring(s, 1000, 3)
substring(s, 1000, 1000)
substring(s, 2)
substring(x, 2, 3)
substring(x, -2, 1)
substr(s, -2)
repeat(s, small)
repeat(s, 2)
repeat('aé', small)
repeat(t, -1)
repeat(NULL, small)
s LIKE 'a%'
s LIKE '%b'
s LIKE '%X%'
s LIKE 'a_b'
s LIKE 'a\%b'
s LIKE 'a\_b'
s LIKE '%'
s LIKE ''
s LIKE '_'
s LIKE '__'
s LIKE 'abc'
s LIKE '%a%b%'
s LIKE 'a%%b'
s LIKE '_%'
s LIKE '%.%'
s LIKE 'é%é'
s LIKE '___'
s LIKE 'a\\\\b'
s NOT LIKE 'a%'
s NOT LIKE '%b'
s NOT LIKE '%X%'
s NOT LIKE 'a_b'
s NOT LIKE 'a\%b'
s NOT LIKE 'a\_b'
s NOT LIKE '%'
s NOT LIKE ''
s NOT LIKE '_'
s NOT LIKE '__'
s NOT LIKE 'abc'
s NOT LIKE '%a%b%'
s NOT LIKE 'a%%b'
s NOT LIKE '_%'
s NOT LIKE '%.%'
s NOT LIKE 'é%é'
s NOT LIKE '___'
s NOT LIKE 'a\\\\b'
s LIKE 'a!%b' ESCAPE '!'
s LIKE 'a!_%' ESCAPE '!'
s LIKE NULL
s ILIKE 'A%'
s ILIKE '%É'
s RLIKE 'a'
s RLIKE '^a'
s RLIKE 'b$'
s RLIKE '^a.b$'
s RLIKE 'a|J'
s RLIKE '[abc]+$'
s RLIKE '[^a-z]'
s RLIKE '(foo|bar)+'
s RLIKE 'a{1,3}'
s RLIKE '^$'
s RLIKE '^.$'
s RLIKE '^..$'
s RLIKE '^[A-Z]{3}$'
s RLIKE '\\d+'
s RLIKE '\\w\\s\\w'
s RLIKE '\\W'
s RLIKE '\\S+'
s RLIKE 'a\\.b'
s RLIKE 'x*?y?'
s RLIKE 'o.b'
s RLIKE '(?:ab)c'
s RLIKE '\\Afoo'
s RLIKE 'n$'
s RLIKE '[\\d-]+'
s RLIKE '[\\s]'
s RLIKE '\\u00e9'
s RLIKE ''
startswith(s, 'a')
endswith(s, 'c')
contains(s, 'b')
contains(s, '')
startswith(s, NULL)
endswith(s, '😀')
regexp_like(s, '^A')

-- dates and times
year(d)
year(ts)
year(ntz)
quarter(d)
quarter(ts)
quarter(ntz)
month(d)
month(ts)
month(ntz)
dayofmonth(d)
dayofmonth(ts)
dayofmonth(ntz)
day(d)
day(ts)
day(ntz)
dayofweek(d)
dayofweek(ts)
dayofweek(ntz)
weekday(d)
weekday(ts)
weekday(ntz)
dayofyear(d)
dayofyear(ts)
dayofyear(ntz)
weekofyear(d)
weekofyear(ts)
weekofyear(ntz)
hour(ts)
hour(ntz)
hour(d)
minute(ts)
minute(ntz)
minute(d)
second(ts)
second(ntz)
second(d)
hour(moment)
year(day)
date_trunc('year', ts)
date_trunc('yyyy', ts)
date_trunc('YY', ts)
date_trunc('quarter', ts)
date_trunc('MONTH', ts)
date_trunc('mon', ts)
date_trunc('mm', ts)
date_trunc('week', ts)
date_trunc('day', ts)
date_trunc('dd', ts)
date_trunc('hour', ts)
date_trunc('minute', ts)
date_trunc('second', ts)
date_trunc('millisecond', ts)
date_trunc('microsecond', ts)
date_trunc('fortnight', ts)
date_trunc('hour', ntz)
date_trunc('day', d)
date_trunc(NULL, ts)
trunc(d, 'year')
trunc(d, 'YYYY')
trunc(d, 'yy')
trunc(d, 'quarter')
trunc(d, 'month')
trunc(d, 'MM')
trunc(d, 'mon')
trunc(d, 'week')
trunc(d, 'day')
trunc(d, 'hour')
trunc(d, 'x')
to_date(day)
to_date(ts)
to_date(d)
to_date(iso, 'yyyy-MM-dd HH:mm:ss')
to_date(day, 'yyyy-MM-dd')
to_date(day, 'yyyy-M-d')
to_date(day, 'yyyyMMdd')
to_date(day, 'yyyy')
to_timestamp(moment)
to_timestamp(d)
to_timestamp(iso, 'yyyy-MM-dd HH:mm:ss')
to_timestamp(moment, 'yyyy-MM-dd HH:mm:ss.SSS')
to_timestamp(moment, "yyyy-MM-dd'T'HH:mm:ss")
to_timestamp(iso, NULL)
to_timestamp(moment, 'yyyy-MM-dd H:m:s')
unix_timestamp(ts)
unix_timestamp(d)
unix_timestamp(iso)
unix_timestamp(day, 'yyyy-MM-dd')
to_unix_timestamp(ts)
unix_timestamp(ntz)
unix_seconds(ts)
unix_millis(ts)
unix_micros(ts)
unix_date(d)
date_from_unix_date(i16)
timestamp_seconds(i32)
timestamp_seconds(i64)
timestamp_millis(i64)
timestamp_micros(i64)
date_add(d, 1)
date_add(d, small)
date_sub(d, i16)
d + 1
d - 1
datediff(d, e)
datediff(ts, d)
ts + INTERVAL 1 HOUR
ts - INTERVAL '1 02:03:04.5' DAY TO SECOND
ntz + INTERVAL 3 DAYS
ts > us - INTERVAL 1 DAY
DATE '2013-01-05'
TIMESTAMP '2013-01-05 01:02:03.4'
TIMESTAMP_NTZ '2013-01-05 01:02:03'
X'00ff'
1.50
1e10D
DOUBLE('NaN')
-0.0D
'it''s'
NULL
true
