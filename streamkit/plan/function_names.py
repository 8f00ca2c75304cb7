"""The names of pyspark.sql.functions that streamkit.functions lacks, and the kind of some, so that an error can say why one is refused."""

from __future__ import annotations

FUNCTION_NAMES = frozenset(
    """
aes_decrypt aes_encrypt any_value approx_count_distinct approx_percentile approxCountDistinct array_agg arrow_udf
arrow_udtf asc asc_nulls_first asc_nulls_last bit_and bit_or bit_xor bitmap_and_agg bitmap_bit_position
bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or broadcast bucket
call_function call_udf collate collation collect_list collect_set corr count_distinct count_min_sketch countDistinct
covar_pop covar_samp cume_dist curdate current_catalog current_database current_date current_path current_schema
current_time current_timestamp current_user days dense_rank desc desc_nulls_first desc_nulls_last every
first first_value from_csv from_xml grouping grouping_id histogram_numeric hll_sketch_agg
hll_sketch_estimate hll_union hll_union_agg hours inline inline_outer input_file_block_length input_file_block_start
input_file_name is_valid_variant is_variant_null java_method json_tuple kll_merge_agg_bigint kll_merge_agg_double
kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint
kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
kll_sketch_to_string_double kll_sketch_to_string_float kurtosis lag last last_value lead listagg listagg_distinct
localtimestamp make_time max_by median min_by mode monotonically_increasing_id months now nth_value ntile pandas_udf
parse_json percent_rank percentile percentile_approx product rand randn random randstr rank reflect
regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number schema_of_csv
schema_of_json schema_of_variant schema_of_variant_agg schema_of_xml sentences session_user session_window
shuffle skewness some spark_partition_id st_asbinary st_geogfromwkb st_geomfromwkb
st_setsrid st_srid stack std stddev stddev_pop stddev_samp string_agg string_agg_distinct sum_distinct sumDistinct
theta_difference theta_intersection theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union
theta_union_agg time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
time_to_millis time_to_seconds time_trunc to_csv to_time to_variant_object to_xml
try_aes_decrypt try_avg try_make_interval try_parse_json try_reflect try_sum
try_to_time try_variant_get tuple_difference_double tuple_difference_integer tuple_difference_theta_double
tuple_difference_theta_integer tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double
tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double
tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_agg_double
tuple_union_agg_integer tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
udf udtf uniform unwrap_udt user uuid var_pop var_samp variance variant_get version window window_time xpath
xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string years
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
