import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.types.DataType;

/** 'connector' = 'packed': files of packed rows as tables, of which only the wanted columns are made. */
public class PackedTables implements DynamicTableSourceFactory {
    static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    @Override public String factoryIdentifier() { return "packed"; }
    @Override public Set<ConfigOption<?>> requiredOptions() { return Set.of(PATH); }
    @Override public Set<ConfigOption<?>> optionalOptions() { return Set.of(); }

    @Override public DynamicTableSource createDynamicTableSource(Context context) {
        DataType type = context.getPhysicalRowDataType();
        int[] all = IntStream.range(0, DataType.getFieldCount(type)).toArray();
        return new Scan(context.getCatalogTable().getOptions().get("path"), kinds(type), all, type);
    }

    /** l for a number, t for a time, s for a text. */
    private static char[] kinds(DataType type) {
        List<DataType> columns = DataType.getFieldDataTypes(type);
        char[] kinds = new char[columns.size()];
        for (int place = 0; place < kinds.length; place++)
            kinds[place] = switch (columns.get(place).getLogicalType().getTypeRoot()) {
                case BIGINT -> 'l';
                case TIMESTAMP_WITHOUT_TIME_ZONE -> 't';
                default -> 's';
            };
        return kinds;
    }

    static class Scan implements ScanTableSource, SupportsProjectionPushDown {
        private final String path;
        private final char[] kinds;
        private int[] wanted;
        private DataType type;

        Scan(String path, char[] kinds, int[] wanted, DataType type) {
            this.path = path;
            this.kinds = kinds;
            this.wanted = wanted;
            this.type = type;
        }

        @Override public ChangelogMode getChangelogMode() { return ChangelogMode.insertOnly(); }
        @Override public boolean supportsNestedProjection() { return false; }
        @Override public DynamicTableSource copy() { return new Scan(path, kinds, wanted, type); }
        @Override public String asSummaryString() { return "packed"; }

        @Override public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new PackedSource(path, kinds, wanted, context.createTypeInformation(type)));
        }

        @Override public void applyProjection(int[][] fields, DataType produced) {
            int[] before = wanted;
            wanted = IntStream.range(0, fields.length).map(place -> before[fields[place][0]]).toArray();
            type = produced;
        }
    }
}
