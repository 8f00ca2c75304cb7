-- three-valued logic, nulls, branches: what is compared with Spark, one expression a line
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
struct(i32, s) IN (struct(1, 'a'), struct(2, s), struct(j32, NULL))
struct(i32, s) NOT IN (struct(1, 'a'), struct(j32, 'abc'))
struct(i32, s) IN (NULL, struct(1, s))
(i32, s) IN ((1, 'a'), (j64, 'abc'))
array(struct(i32)) IN (array(struct(j32)), array(struct(1)))
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
s LIKE ANY ('a%', t)
s LIKE ALL ('a%', '%b%', NULL)
s NOT LIKE ANY ('a%', '%b', NULL)
s NOT LIKE ALL ('a%', '%b')
s ILIKE SOME ('A%', NULL)
