import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryStringData;

/**
 * The rows of packed files, a file for each subtask, in order.
 *
 * Little-endian, a row: its length (int); for each column 8 bytes, a number, a time in ms, or the offset in the row << 32 | length of
 * a text; then the texts. A text is not copied but points into the file's bytes, so this is the least that a source can do.
 */
public class PackedSource implements Source<RowData, PackedSource.Split, List<PackedSource.Split>>, ResultTypeQueryable<RowData> {
    static final int ROWS_A_CALL = 16;
    private final String prefix;
    private final char[] kinds;
    private final int[] wanted;
    private final TypeInformation<RowData> type;

    PackedSource(String prefix, char[] kinds, int[] wanted, TypeInformation<RowData> type) {
        this.prefix = prefix;
        this.kinds = kinds;
        this.wanted = wanted;
        this.type = type;
    }

    /** A file and how far it was read. */
    public record Split(int number, int position) implements SourceSplit, Serializable {
        @Override public String splitId() { return Integer.toString(number); }
    }

    @Override public TypeInformation<RowData> getProducedType() { return type; }
    @Override public Boundedness getBoundedness() { return Boundedness.CONTINUOUS_UNBOUNDED; } // a bounded one would be run as a batch
    @Override public SplitEnumerator<Split, List<Split>> createEnumerator(SplitEnumeratorContext<Split> context) { return new Assignment(context); }
    @Override public SplitEnumerator<Split, List<Split>> restoreEnumerator(SplitEnumeratorContext<Split> context, List<Split> state) { return new Assignment(context); }
    @Override public SourceReader<RowData, Split> createReader(SourceReaderContext context) { return new Reader(); }
    @Override public SimpleVersionedSerializer<Split> getSplitSerializer() { return new SplitBytes(); }
    @Override public SimpleVersionedSerializer<List<Split>> getEnumeratorCheckpointSerializer() { return new NoBytes(); }

    record Assignment(SplitEnumeratorContext<Split> context) implements SplitEnumerator<Split, List<Split>> {
        @Override public void start() {}
        @Override public void handleSplitRequest(int subtask, String host) {}
        @Override public void addSplitsBack(List<Split> splits, int subtask) { throw new IllegalStateException("a run that failed is not restarted"); }
        @Override public List<Split> snapshotState(long checkpoint) { return List.of(); }
        @Override public void close() {}

        @Override public void addReader(int subtask) {
            context.assignSplit(new Split(subtask, 0), subtask);
            context.signalNoMoreSplits(subtask);
        }
    }

    class Reader implements SourceReader<RowData, Split> {
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        private ByteBuffer bytes;
        private MemorySegment[] segments;
        private int number;
        private int position;

        @Override public void start() {}
        @Override public void notifyNoMoreSplits() {}
        @Override public void close() {}
        @Override public CompletableFuture<Void> isAvailable() { return available; }
        @Override public List<Split> snapshotState(long checkpoint) { return bytes == null ? List.of() : List.of(new Split(number, position)); }

        @Override public InputStatus pollNext(ReaderOutput<RowData> output) {
            if (bytes == null) return InputStatus.NOTHING_AVAILABLE;
            for (int turn = 0; turn < ROWS_A_CALL; turn++) {
                if (position >= bytes.capacity()) return InputStatus.END_OF_INPUT;
                GenericRowData row = new GenericRowData(wanted.length);
                for (int field = 0; field < wanted.length; field++) {
                    long value = bytes.getLong(position + 4 + 8 * wanted[field]);
                    row.setField(field, switch (kinds[wanted[field]]) {
                        case 'l' -> value;
                        case 't' -> TimestampData.fromEpochMillis(value);
                        default -> BinaryStringData.fromAddress(segments, position + (int) (value >>> 32), (int) value);
                    });
                }
                position += bytes.getInt(position);
                output.collect(row);
            }
            return InputStatus.MORE_AVAILABLE;
        }

        @Override public void addSplits(List<Split> splits) {
            Nexmark.sourceBegins();
            number = splits.get(0).number();
            position = splits.get(0).position();
            try {
                byte[] read = Files.readAllBytes(Path.of(prefix + "-" + number + ".bin"));
                bytes = ByteBuffer.wrap(read).order(ByteOrder.LITTLE_ENDIAN);
                segments = new MemorySegment[] {MemorySegmentFactory.wrap(read)};
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            available.complete(null);
        }
    }

    static class SplitBytes implements SimpleVersionedSerializer<Split> {
        @Override public int getVersion() { return 1; }
        @Override public byte[] serialize(Split split) { return ByteBuffer.allocate(8).putInt(split.number()).putInt(split.position()).array(); }
        @Override public Split deserialize(int version, byte[] bytes) {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            return new Split(in.getInt(), in.getInt());
        }
    }

    static class NoBytes implements SimpleVersionedSerializer<List<Split>> {
        @Override public int getVersion() { return 1; }
        @Override public byte[] serialize(List<Split> splits) { return new byte[0]; }
        @Override public List<Split> deserialize(int version, byte[] bytes) { return List.of(); }
    }
}
