import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * The benchmark's `kafka_backlog` in Kafka Streams: payments by user and minute, from a topic of JSON to a topic of JSON.
 *
 * <pre>
 * BacklogCount ADDRESS INPUT OUTPUT STATE [NAME=VALUE ...]
 * </pre>
 *
 * It runs until it is ended; its exit status is 1 if the application fails. STATE is a new folder, whose name is the application's too.
 * NAME=VALUE overrides a setting of the application.
 */
public final class BacklogCount {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static final class Payment {
        public String user;
        public long amount;
        public long sent;
    }

    /** A result as it is written: the columns that ours have. */
    public static final class Result {
        public String user;
        public String window_start;
        public String window_end;
        public long payments;
        public long total;

        static Result of(Windowed<String> user, Totals totals) {
            Bounds bounds = Bounds.of(user.window());
            Result result = new Result();
            result.user = user.key();
            result.window_start = bounds.start;
            result.window_end = bounds.end;
            result.payments = totals.payments;
            result.total = totals.total;
            return result;
        }
    }

    /** The texts of a window's bounds; a thread keeps those of the last one, since results mostly come window by window. */
    private record Bounds(long from, String start, String end) {
        private static final ThreadLocal<Bounds> LAST = new ThreadLocal<>();

        static Bounds of(Window window) {
            Bounds last = LAST.get();
            if (last == null || last.from != window.start()) {
                last = new Bounds(window.start(), Instant.ofEpochMilli(window.start()).toString(),
                        Instant.ofEpochMilli(window.end()).toString());
                LAST.set(last);
            }
            return last;
        }
    }

    private record Totals(long payments, long total) {
        Totals with(Payment payment) {
            return new Totals(payments + 1, total + payment.amount);
        }

        byte[] bytes() {
            return ByteBuffer.allocate(16).putLong(payments).putLong(total).array();
        }

        static Totals of(byte[] bytes) {
            return bytes == null ? null : new Totals(ByteBuffer.wrap(bytes).getLong(0), ByteBuffer.wrap(bytes).getLong(8));
        }
    }

    private static final Serde<Totals> TOTALS =
            Serdes.serdeFrom((topic, value) -> value == null ? null : value.bytes(), (topic, bytes) -> Totals.of(bytes));

    public static void main(String[] given) throws Exception {
        try (KafkaStreams streams = new KafkaStreams(topology(given[1], given[2]), settings(given[0], Path.of(given[3]), given))) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            new CountDownLatch(1).await();
        }
    }

    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<Payment> payments = json(Payment.class);
        builder.stream(input, Consumed.with(Serdes.String(), payments))
                .groupByKey(Grouped.with(Serdes.String(), payments))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(10)))
                .aggregate(
                        () -> new Totals(0, 0),
                        (user, payment, totals) -> totals.with(payment),
                        Materialized.with(Serdes.String(), TOTALS))
                .toStream()
                .map((user, totals) -> KeyValue.pair(user.key(), Result.of(user, totals)))
                .to(output, Produced.with(Serdes.String(), json(Result.class)));
        return builder.build();
    }

    private static <T> Serde<T> json(Class<T> type) {
        var reader = MAPPER.readerFor(type);
        var writer = MAPPER.writerFor(type);
        return Serdes.serdeFrom(
                (topic, value) -> {
                    try {
                        return value == null ? null : writer.writeValueAsBytes(value);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, bytes) -> {
                    try {
                        return bytes == null ? null : reader.readValue(bytes);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }

    private static Properties settings(String address, Path state, String[] given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("application.id", state.getFileName().toString());
        settings.put("state.dir", state.toString());
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");
        for (String override : List.of(given).subList(4, given.length)) {
            String[] both = override.split("=", 2);
            settings.put(both[0], both[1]);
        }
        return settings;
    }
}
