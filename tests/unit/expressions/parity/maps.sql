-- Maps that fail are not here: in Spark one that fails leaves its builder in a state that the next row sees.
counts['a']
counts[s]
counts['zz']
counts.a
element_at(counts, 'a')
element_at(counts, s)
try_element_at(counts, 'b')
element_at(counts, NULL)
map(1, 'a', 2, 'b')[small]
map(array(1), 'a')[ints]
map(coalesce(f64, 0.0D), 'x')[g64]
map('a', small)
map(1, 'a', 2L, s)
map('a', ints, 'b', NULL)
map_keys(counts)
map_values(counts)
map_entries(counts)
map_keys(map(1, s))
map_values(map(1, ints))
map_entries(map(1, place))
map_from_arrays(array('a', 'b'), array(1, 2))
map_from_entries(array(struct(1, 'a'), struct(2, 'b')))
map_from_entries(map_entries(counts))
map_from_entries(array(struct(s, small), NULL))
map_from_entries(array(struct(s, small)))
map_concat(counts, map('zz', 9))
map_concat(counts)
map_concat()
map_concat(map(1, 'a'), map(2L, s))
map_contains_key(counts, 'a')
map_contains_key(counts, s)
map_contains_key(map(1, 2), small)
str_to_map('a:1,b:2')
str_to_map(s)
str_to_map('a=1;b=2', ';', '=')
str_to_map(sk, ' ', 'b')
str_to_map('a:1,b')
str_to_map('a:1:2,,c:')
size(counts)
cardinality(map(1, 2))
counts IS NOT NULL
coalesce(counts, map('q', 0))
if(size(counts) > 1, counts, map())
CASE WHEN b THEN counts END
nvl(counts, map('k', 1))
CAST(counts AS MAP<STRING, BIGINT>)
CAST(counts AS MAP<STRING, STRING>)
CAST(counts AS STRING)
CAST(map(1, place) AS STRING)
CAST(counts AS MAP<INT, INT>)
map(counts, 1)
counts = counts
array(counts) IS NULL
array(counts)[0]['a']
map('m', counts)['m']['a']
named_struct('m', counts).m['b']
element_at(map('a', ints), 'a')[0]
map_keys(counts)[0]
