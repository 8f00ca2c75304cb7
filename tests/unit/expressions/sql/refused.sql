-- what Spark takes, or takes for something else, and what is no SQL: each is refused, none is misread
i32 j32
1 a
a b AS c
i32 AS
i32 AS (a, b)
i32; j32
i32;
a:b
?
:name
i32 = ?
x -> x
i32 + x -> x
(x, y) -> x
(x) -> x
*
i32 *
place.*
count(DISTINCT i32)
sum(i32) FILTER (WHERE b)
sum(i32) OVER (PARTITION BY s)
row_number() OVER (ORDER BY i32)
first(i32) IGNORE NULLS
any_value(i32) RESPECT NULLS
percentile_cont(0.5) WITHIN GROUP (ORDER BY i32)
(SELECT 1)
i32 IN (SELECT 1)
EXISTS (SELECT 1)
i32 NOT IN (WITH x AS (SELECT 1) SELECT * FROM x)
mask(s, upperChar => 'x')
s COLLATE UTF8_LCASE
b IS UNKNOWN
i32 IS NULL = b
i32 IS NULL IS NULL
i32 = NOT b
i32 NOT NULL
i32 BETWEEN 1
i32 BETWEEN 1 2
i32 BETWEEN 1 AND
i32 IN ()
i32 IN 1
i32 IN
s LIKE
s LIKE 'a' ESCAPE
s LIKE 'a' ESCAPE 'ab'
s LIKE 'a' ESCAPE t
s LIKE 'a' LIKE 'b'
CASE WHEN b 1 END
CASE WHEN b THEN 1
CASE END
CASE i32 ELSE 1 END
CASE WHEN b THEN END
CAST(i32)
CAST(i32 AS)
CAST(i32 int)
CAST(i32, int)
CAST(i32 AS nosuchtype)
CAST(i32 AS int
i32::
i32::nosuchtype
i32 +
* i32
i32 + * j32
i32 j32 +
(i32
i32)
()
(i32,)
(i32 AS a)
upper(
upper(s
upper(s,)
upper(,s)
upper(s t)
a.b(s)
ints[
ints[]
ints[0, 1]
ints[0:1]
{i32}
{fn upper(s)}
@x
$x
#
i32 # j32
i32 ? j32
i32 ?? j32
i32 \ j32
i32 |> j32
i32 ** j32
i32 // j32
i32 := 1
i32 -> 1
i32 => 1
i32 @> j32
i32 && j32
i32 ~ j32
i32 !~ j32
s ~* 'a'
s SIMILAR TO 'a'
s GLOB 'a'
i32 ISNULL
i32 NOTNULL
i32 IS JSON
ts AT TIME ZONE 'UTC'
'abc
"abc
`abc
'a\'
/* abc
i32 /*+ hint */
X'0g'
1.5L
300Y
99999S
99999999999999999999L
1e400
1e400D
1e39F
999999999999999999999999999999999999999
0.000000000000000000000000000000000000001
N'x'
B'01'
E'a\n'
X"0f"
INTERVAL
INTERVAL 1
INTERVAL i32 DAY
INTERVAL 1 FORTNIGHT
INTERVAL 1 DAY TO
INTERVAL '1' DAY TO SECOND HOUR
TIME '10:00:00'
DATE '2013-13-01'
TIMESTAMP 'abc'
AND
NOT
i32 AND
b AND OR c
NULL NULL
SELECT i32
SELECT 1 FROM t
i32 FROM t
WITH x AS (SELECT 1) SELECT 1
DROP TABLE x
i32 WHERE b
i32 GROUP BY j32
i32 LIMIT 1
EXTRACT(YEAR d)
EXTRACT(FROM d)
TRIM(BOTH 'x' s)
TRIM('x' FROM)
OVERLAY(s PLACING 'x')
SUBSTRING(s FROM)
POSITION('a' IN)
IF b THEN 1 ELSE 2 END
ARRAY[1, 2]
[1, 2]
