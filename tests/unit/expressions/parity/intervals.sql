-- intervals: constants, what makes them of columns, and what they move
ts + INTERVAL 1 DAY
ts - INTERVAL 1 DAY
INTERVAL 1 DAY + ts
ts + INTERVAL 1 WEEK
ts + INTERVAL '1' HOUR
ts + INTERVAL 25 HOURS
ts + INTERVAL 1.5 SECONDS
ts + INTERVAL '1.123456' SECOND
ts + INTERVAL 3 MILLISECONDS
ts - INTERVAL 5 MICROSECONDS
ts + INTERVAL 1 DAY 2 HOURS
ts + INTERVAL '1 day 2 hours'
ts + INTERVAL '1 02:03:04.5' DAY TO SECOND
ts - INTERVAL '-1 02:03:04.5' DAY TO SECOND
ts + INTERVAL '10:11' HOUR TO MINUTE
ts + INTERVAL '3 12' DAY TO HOUR
ts + INTERVAL '12:34' MINUTE TO SECOND
ts + INTERVAL 1 MONTH
ts - INTERVAL 1 MONTH
ts + INTERVAL '1-2' YEAR TO MONTH
ts - INTERVAL 3 YEARS
ts + INTERVAL '-3' MONTH
ntz + INTERVAL 1 DAY
ntz - INTERVAL '1-2' YEAR TO MONTH
ntz + INTERVAL 36 HOURS
d + INTERVAL 1 DAY
d - INTERVAL 2 WEEKS
d + INTERVAL 24 HOURS
d + INTERVAL 1 MONTH
d - INTERVAL '1-2' YEAR TO MONTH
d + INTERVAL '1 00:00:00' DAY TO SECOND
INTERVAL 1 MONTH + d
moment + INTERVAL 1 DAY
day - INTERVAL 1 MONTH
ts + (INTERVAL 1 DAY + INTERVAL 1 HOUR)
ts + -INTERVAL 1 DAY
ts + INTERVAL 1 HOUR * small
ts + small * INTERVAL 1 DAY
ts + INTERVAL 1 MONTH * i8
ts + INTERVAL 1 DAY * i64
ts + make_dt_interval(1)
ts + make_dt_interval(small, small, i8, dec)
ts - make_dt_interval(0, i32)
ts + make_dt_interval(i32)
ts + make_dt_interval()
ntz + make_dt_interval(small)
d + make_dt_interval(1)
ts + make_ym_interval(1, 2)
ts + make_ym_interval(small, i8)
ts + make_ym_interval(i32)
d + make_ym_interval(0, small)
d - make_ym_interval(1)
ts + make_interval(1, 2, 3, 4, 5, 6, 7.5)
ts + make_interval(small, small, small, small, small, small, dec)
ts - make_interval(0, 1)
ntz + make_interval(0, small, 0, i8)
d + make_interval(0, 1, 0, 2)
d + make_interval(0, small, 0, i8)
d + make_interval(0, 0, 0, 0, 1)
(ts - us) > INTERVAL 1 DAY
ts - us = us - ts
ts - us < make_dt_interval(small)
d - e > INTERVAL 100 DAYS
INTERVAL 25 HOURS > INTERVAL 1 DAY
INTERVAL 13 MONTHS > INTERVAL 1 YEAR
us + (ts - us)
e + (d - e)
us + (ntz - us)
extract(DAY FROM ts - us)
extract(HOUR FROM ts - us)
extract(MINUTE FROM ts - us)
extract(SECOND FROM ts - us)
extract(DAY FROM d - e)
extract(HOUR FROM d - e)
extract(DAY FROM ts - d)
extract(HOUR FROM ntz - d)
extract(YEAR FROM make_ym_interval(small, i8))
extract(MONTH FROM make_ym_interval(small, i8))
extract(DAY FROM make_ym_interval(1))
date_part('DAY', INTERVAL 5 DAYS)
CAST(d - e AS INT)
CAST(d - e AS BIGINT)
CAST(d - DATE '2013-01-01' AS SMALLINT)
d - '2013-01-01' = INTERVAL 0 DAYS
ts - '2013-01-01 00:00:00' > INTERVAL 0 DAYS
coalesce(ts - us, INTERVAL 1 DAY) > INTERVAL 1 HOUR
if(b, ts - us, us - ts) > INTERVAL 0 SECONDS
ts + if(b, INTERVAL 1 DAY, INTERVAL 2 DAYS)
ts + NULL
ts + 1
ts + '1'
d + '1'
ts + us
INTERVAL 1 DAY + INTERVAL 1 MONTH
