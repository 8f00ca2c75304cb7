"""The names of pyspark.sql.functions that streamkit.functions lacks, and the kind of some, so that an error can say why one is refused."""

from __future__ import annotations

FUNCTION_NAMES = frozenset(
    """
acos acosh aes_decrypt aes_encrypt aggregate any_value approxCountDistinct approx_count_distinct
approx_percentile array array_agg array_append array_compact array_contains array_distinct array_except array_insert
array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
array_union arrays_overlap arrays_zip arrow_udf arrow_udtf asc asc_nulls_first asc_nulls_last ascii asin asinh assert_true
atan atan2 atanh base64 bin bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position
bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bitwiseNOT bitwise_not bool_and bool_or broadcast
bround bucket call_function call_udf cardinality cbrt ceil ceiling char chr collate collation collect_list collect_set
conv corr cos cosh cot countDistinct count_distinct count_min_sketch covar_pop covar_samp crc32 create_map
csc cume_dist curdate current_catalog current_database current_date current_path current_schema current_time
current_timestamp current_user days decode degrees
dense_rank desc desc_nulls_first desc_nulls_last e element_at elt encode equal_null every exists exp explode explode_outer
expm1 factorial filter find_in_set first first_value flatten floor forall format_number format_string from_csv
from_json from_xml get get_json_object getbit grouping grouping_id hash hex
histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hours hypot ilike initcap inline inline_outer
input_file_block_length input_file_block_start input_file_name instr is_valid_utf8 is_valid_variant is_variant_null
java_method json_array_length json_object_keys json_tuple kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double
kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
kll_sketch_to_string_float kurtosis lag last last_value lead left levenshtein listagg listagg_distinct ln
localtimestamp locate log log10 log1p log2 lpad make_time
make_valid_utf8 map_concat map_contains_key map_entries map_filter
map_from_arrays map_from_entries map_keys map_values map_zip_with mask max_by md5 median min_by mode
monotonically_increasing_id months named_struct nanvl now nth_value ntile nullifzero
octet_length overlay pandas_udf parse_json parse_url percent_rank percentile percentile_approx pi pmod posexplode
posexplode_outer position positive pow power printf product quote radians raise_error rand randn random randstr rank reduce
reflect regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr regr_avgx regr_avgy
regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint round row_number
rpad schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg schema_of_xml sec sentences sequence session_user
session_window sha sha1 sha2 shiftLeft shiftRight shiftRightUnsigned shiftleft shiftright shiftrightunsigned shuffle sign
signum sin sinh size skewness slice some sort_array soundex spark_partition_id split split_part sqrt st_asbinary
st_geogfromwkb st_geomfromwkb st_setsrid st_srid stack std stddev stddev_pop stddev_samp str_to_map string_agg
string_agg_distinct struct substring_index sumDistinct sum_distinct tan tanh theta_difference theta_intersection
theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg time_bucket time_diff
time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
toDegrees toRadians to_binary to_char to_csv to_json to_number to_time
to_varchar to_variant_object to_xml transform transform_keys transform_values translate
try_add try_aes_decrypt try_avg try_divide try_element_at try_make_interval
try_mod try_multiply try_parse_json try_parse_url try_reflect try_subtract try_sum try_to_binary
try_to_number try_to_time try_url_decode try_validate_utf8 try_variant_get
tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer
tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double
tuple_union_integer tuple_union_theta_double tuple_union_theta_integer typeof udf udtf unbase64 unhex uniform unwrap_udt
url_decode url_encode user uuid validate_utf8 var_pop var_samp variance variant_get version width_bucket window window_time
xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 years
zeroifnull zip_with
""".split()  # noqa: SIM905 - a list literal would have a line for each name
)
AGGREGATE_NAMES = frozenset(
    """
any_value approxCountDistinct approx_count_distinct approx_percentile array_agg bit_and bit_or bit_xor bitmap_and_agg
bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr countDistinct count_distinct
count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg
hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
kll_sketch_agg_float kurtosis last last_value listagg listagg_distinct max_by median min_by mode percentile
percentile_approx product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg string_agg_distinct sumDistinct
sum_distinct theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
tuple_union_agg_integer var_pop var_samp variance
""".split()  # noqa: SIM905
)
CONTEXT_NAMES = frozenset(
    """
curdate current_catalog current_database current_date current_schema current_time current_timestamp
current_user input_file_block_length input_file_block_start input_file_name localtimestamp monotonically_increasing_id now
rand randn random randstr session_user shuffle spark_partition_id uniform user uuid version
""".split()  # noqa: SIM905
)
PYTHON_FUNCTIONS = frozenset(("udf", "udtf", "pandas_udf", "arrow_udf", "arrow_udtf", "call_udf", "unwrap_udt"))
GENERATORS = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple window session_window".split()  # noqa: SIM905
)
FUNCTION_NAMES_IN_ANY_CASE = frozenset(name.lower() for name in FUNCTION_NAMES)
