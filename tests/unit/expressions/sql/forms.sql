-- names, casts, case, in, like, lambdas, nested fields, and the functions whose arguments are no plain list
i32
I32
`i32` + `j32`
place.lat
place.`lat`
`place`.`lat`
(place).lat
PLACE.LAT
ints[0]
ints[i8 + 1]
counts [ 'a' ]
(ints)[0]
named_struct('a', place).a.lat
named_struct('a', place).a.`lat`
array(1, 2)[0]
array(array(1))[0][0]
map('a', 1)['a']
- ints[0]
ints[0]::string
place.lat::int::string
i32::bigint + 1
i32 + j32::bigint
i32::decimal(10,2) * 2
CAST(i32 AS bigint)
cast(i32 as STRING)
CAST(i32 AS decimal(10, 2))
CAST(i32 AS DECIMAL)
CAST(s AS TIMESTAMP_NTZ)
CAST(NULL AS array<map<string,int>>)
CAST(NULL AS struct<a: int, b: array<string>>)
CAST(NULL AS struct<a int>)
CAST(NULL AS array<array<int>>)
CAST(i32 + 1 AS string) || 'x'
CAST(CAST(i32 AS string) AS int)
TRY_CAST(s AS int)
try_cast(s AS decimal(5,2))
int(s)
double('NaN')
string(i32)
bigint(i32) + 1
date(ts)
timestamp(s)
decimal(i32)
boolean(s)
tinyint(s)
smallint(s)
float(s)
binary(s)
CASE WHEN b THEN 1 END
CASE WHEN b THEN 1 WHEN c THEN 2 ELSE 3 END
CASE i32 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END
CASE i32 + 1 WHEN j32 THEN 'a' ELSE 'b' END
CASE WHEN i32 > 1 AND b OR c THEN i32 + 1 ELSE CASE WHEN c THEN 1 END END
CASE WHEN b THEN 1 END + 1
case when b then 1 end
IF(b, i32, j32)
if (b, 1, 2)
i32 IN (1)
i32 IN (j32 + 1, small)
i32 NOT IN (1, 2)
NOT i32 IN (1, 2)
i32 + 1 IN (1, 2)
(i32, j32) IN ((1, 2), (3, 4))
s IN ('a', 'b') AND b
s LIKE 'a%'
s NOT LIKE 'a_'
s LIKE 'a!%' ESCAPE '!'
s NOT LIKE 'a!%' ESCAPE '!'
s NOT ILIKE 'A%'
s ILIKE 'a/%' ESCAPE '/'
s RLIKE '^a'
s REGEXP '^a'
s NOT RLIKE '^a'
s || t LIKE 'a%'
s LIKE 'a' || '%'
s LIKE 'a%' AND t LIKE 'b%'
i32 BETWEEN 1 AND 3
i32 NOT BETWEEN 1 AND 3
i32 + 1 BETWEEN j32 - 1 AND j32 + 1
NOT i32 BETWEEN 1 AND 3 AND b
i32 IS NULL
i32 + 1 IS NOT NULL
b IS TRUE
b IS NOT TRUE
b IS NOT FALSE
NOT b IS TRUE
i32 = 1 IS TRUE
i32 IS DISTINCT FROM j32
i32 IS NOT DISTINCT FROM j32
NOT i32 IS NULL AND b
transform(ints, x -> x + 1)
transform(ints, (x, i) -> x * i)
filter(ints, x -> x > 1)
filter(ints, x -> x > i32 AND x < j32)
exists(ints, x -> x IS NULL)
forall(ints, x -> x > 0 OR x IS NULL)
aggregate(ints, 0, (acc, x) -> acc + x)
aggregate(ints, 0, (acc, x) -> acc + x, acc -> acc * 10)
zip_with(ints, ints, (x, y) -> x + y)
transform_values(counts, (k, v) -> v + 1)
map_filter(counts, (k, v) -> v > 0 AND k != '')
transform(ints, i32 -> i32 + 1)
transform(ints, x -> transform(ints, y -> x + y))
transform(texts, x -> CASE WHEN x = 'a' THEN 1 ELSE 2 END)
transform(ints, `x` -> `x`)
array_sort(ints, (x, y) -> x - y)
struct(i32, j32)
struct(i32 AS a, j32 + 1 AS b)
(i32, j32)
named_struct('a', i32)
EXTRACT(YEAR FROM d)
extract(day from ts)
EXTRACT(DOW FROM d) + 1
date_part('year', d)
POSITION('a' IN s)
position('a', s)
position('a', s, 2)
SUBSTRING(s FROM 2)
SUBSTRING(s FROM 2 FOR 3)
substring(s, 2, 3)
substr(s FROM 1 FOR 2)
SUBSTR(s, 1, 2)
TRIM(s)
TRIM('x' FROM s)
TRIM(BOTH FROM s)
TRIM(BOTH 'x' FROM s)
TRIM(LEADING 'x' FROM s)
TRIM(TRAILING 'x' FROM s)
TRIM(LEADING FROM s)
trim(BOTH t FROM s)
trim('x', s)
ltrim('x', s)
rtrim('x', s)
ltrim(s)
btrim(s, 'x')
OVERLAY(s PLACING 'x' FROM 2)
OVERLAY(s PLACING 'x' FROM 2 FOR 3)
overlay(s, 'x', 2, 3)
TIMESTAMPADD(HOUR, 3, ts)
timestampadd(DAY, i32, ts)
DATEADD(MONTH, 1, ts)
DATE_ADD(WEEK, 1, ts)
date_add(d, 3)
dateadd(d, 3)
TIMESTAMPDIFF(DAY, ts, us)
DATEDIFF(HOUR, ts, us)
date_diff(MINUTE, ts, us)
datediff(d, e)
left(s, 2)
right(s, 2)
char(65)
day(d)
date_add(d, i32 % 10)
concat(s, t, 'x')
coalesce(i32, j32, 0)
upper(lower(s))
`upper`(s)
log(2, f64)
current_date
pi()
array()
map()
((i32))
( i32 + 1 ) * ( j32 - 1 )
i32   +	j32
(i32)+(j32)
s||t
i32*j32+small
not b
b and c or b
isnotnull(i32)
i32 div j32
mod(i32, 7)
i32::bigint < j32
i32::bigint > j32
rlike(s, 'a')
like(s, 'a%')
regexp(s, 'a') AND NOT ilike(s, 'b')
