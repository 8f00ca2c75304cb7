place.lat
place.name
place.NAME
place['lat']
place
struct(small, s)
struct(small + 1, s)
struct(place.lat, place.name AS n)
struct(1, 'a')
named_struct('a', 1, 'b', s)
named_struct('x', place).x.lat
named_struct('a', small).a + 1
named_struct('l', ints).l[0]
named_struct('a b', 1).`a b`
place = place
place = named_struct('lat', 1.5D, 'name', 'a')
place < named_struct('lat', 1.5D, 'name', 'b')
place <=> NULL
place <=> place
place >= named_struct('lat', CAST(NULL AS DOUBLE), 'name', 'b')
place IN (named_struct('lat', 1.5D, 'name', 'a'), named_struct('lat', CAST('nan' AS DOUBLE), 'name', NULL))
struct(small, s) = struct(small, s)
struct(f64) = struct(g64)
struct(f64) < struct(g64)
struct(i8) = struct(i64)
struct(i8, s) > struct(i8, t)
greatest(place, named_struct('lat', 1.0D, 'name', 'z'))
least(place, named_struct('lat', 2.0D, 'name', 'z'))
coalesce(place, named_struct('lat', 0.0D, 'name', 'none'))
if(b, place, NULL)
CASE WHEN b THEN place WHEN c THEN named_struct('lat', 1.0D, 'name', s) END
nullif(place, place)
place IS NULL
place.lat IS NULL
isnotnull(place)
CAST(place AS STRING)
CAST(place AS STRUCT<a: STRING, b: STRING>)
CAST(place AS STRUCT<lat: INT, name: STRING>)
CAST(place AS STRUCT<lat: DOUBLE>)
CAST(struct(d, ts, dec) AS STRING)
CAST(struct(ints, counts) AS STRING)
array(place).lat
array(place, NULL).name
place.nothere
small.a
struct(place).place.name
struct(place.lat).lat
struct(d, ts, x, dec, b)
array(struct(s, small), struct(t, small))
named_struct('a', named_struct('b', small)).a.b
size(array(place))
