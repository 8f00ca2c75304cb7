-- text: what is compared with Spark, one expression a line
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
