import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.LookupFunction;

/** 'connector' = 'side': the small table of query 13, looked up in memory. */
public class SideInput implements DynamicTableSourceFactory {
    static final long ROWS = 10_000;

    @Override public String factoryIdentifier() { return "side"; }
    @Override public Set<ConfigOption<?>> requiredOptions() { return Set.of(); }
    @Override public Set<ConfigOption<?>> optionalOptions() { return Set.of(); }
    @Override public DynamicTableSource createDynamicTableSource(Context context) { return new Side(); }

    static class Side implements LookupTableSource {
        @Override public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) { return LookupFunctionProvider.of(new Find()); }
        @Override public DynamicTableSource copy() { return new Side(); }
        @Override public String asSummaryString() { return "side"; }
    }

    public static class Find extends LookupFunction {
        private transient Map<Long, List<RowData>> rows;

        @Override public Collection<RowData> lookup(RowData key) {
            if (rows == null) {
                rows = new HashMap<>();
                for (long number = 0; number < ROWS; number++)
                    rows.put(number, List.of(GenericRowData.of(number, StringData.fromString(Long.toString(number)))));
            }
            return rows.getOrDefault(key.getLong(0), List.of());
        }
    }
}
