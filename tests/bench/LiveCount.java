import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * The benchmark's `live` in Kafka Streams: payments by user and minute, from `send` to the `poll` of the newest result.
 *
 * <pre>
 * LiveCount ADDRESS STATE RATE KEYS WARM MEASURED [NAME=VALUE ...]
 * </pre>
 *
 * A producer sends RATE records a second of KEYS users, and flushes every 10 ms. After WARM seconds from the first result on, it measures
 * for MEASURED seconds, and prints `p50`, `p99` (ms) and `results`. STATE is a new folder, whose name is the application's too, and begins
 * the names of its topics. NAME=VALUE overrides a setting of the application.
 */
public final class LiveCount {
    private static final int PARTITIONS = 4;
    private static final long COMMIT_MS = 10;
    private static final Duration POLL = Duration.ofSeconds(1);

    private record Payment(double amount, long sent) {
        byte[] bytes() {
            return ByteBuffer.allocate(16).putDouble(amount).putLong(sent).array();
        }

        static Payment of(byte[] bytes) {
            return bytes == null ? null : new Payment(ByteBuffer.wrap(bytes).getDouble(0), ByteBuffer.wrap(bytes).getLong(8));
        }
    }

    private record Totals(long payments, double total, long sent) {
        Totals with(Payment payment) {
            return new Totals(payments + 1, total + payment.amount, Math.max(sent, payment.sent));
        }

        byte[] bytes() {
            return ByteBuffer.allocate(24).putLong(payments).putDouble(total).putLong(sent).array();
        }

        static Totals of(byte[] bytes) {
            ByteBuffer buffer = bytes == null ? null : ByteBuffer.wrap(bytes);
            return buffer == null ? null : new Totals(buffer.getLong(0), buffer.getDouble(8), buffer.getLong(16));
        }
    }

    private static final Serde<Payment> PAYMENTS =
            Serdes.serdeFrom((topic, value) -> value == null ? null : value.bytes(), (topic, bytes) -> Payment.of(bytes));
    private static final Serde<Totals> TOTALS =
            Serdes.serdeFrom((topic, value) -> value == null ? null : value.bytes(), (topic, bytes) -> Totals.of(bytes));

    private static volatile boolean isOver;

    public static void main(String[] given) throws Exception {
        Path state = Path.of(given[1]);
        String name = state.getFileName().toString();
        String input = name + "-payments";
        String output = name + "-totals";
        create(given[0], input, output);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        try (KafkaStreams streams = new KafkaStreams(topology(input, output), settings(given[0], state, given))) {
            streams.setUncaughtExceptionHandler(error -> {
                failure.set(error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            Thread sender = new Thread(() -> send(given[0], input, Integer.parseInt(given[2]), Integer.parseInt(given[3])));
            sender.start();
            double[] found = latencies(given[0], output, Long.parseLong(given[4]), Long.parseLong(given[5]), failure);
            isOver = true;
            sender.join();
            System.out.printf(
                    Locale.ROOT, "p50 %.3f%np99 %.3f%nresults %d%n", quantile(found, 0.5), quantile(found, 0.99), found.length);
        }
    }

    private static void create(String address, String... topics) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            List<NewTopic> wanted = Stream.of(topics).map(topic -> new NewTopic(topic, PARTITIONS, (short) 1)).toList();
            admin.createTopics(wanted).all().get();
        }
    }

    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), PAYMENTS))
                .groupByKey(Grouped.with(Serdes.String(), PAYMENTS))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .aggregate(
                        () -> new Totals(0, 0, Long.MIN_VALUE),
                        (user, payment, totals) -> totals.with(payment),
                        Materialized.with(Serdes.String(), TOTALS))
                .toStream((window, totals) -> window.key())
                .to(output, Produced.with(Serdes.String(), TOTALS));
        return builder.build();
    }

    private static Properties settings(String address, Path state, String[] given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("application.id", state.getFileName().toString());
        settings.put("state.dir", state.toString());
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");
        for (String override : List.of(given).subList(6, given.length)) {
            String[] both = override.split("=", 2);
            settings.put(both[0], both[1]);
        }
        return settings;
    }

    /** Send at an even pace, and flush every 10 ms; the clock is that of this machine, in nanoseconds. */
    private static void send(String address, String input, int rate, int keys) {
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "acks", "all", "linger.ms", 0);
        var random = new java.util.Random(1);
        try (var producer = new KafkaProducer<>(settings, Serdes.String().serializer(), PAYMENTS.serializer())) {
            long due = System.nanoTime();
            while (!isOver) {
                for (long left = Math.max(1, rate * COMMIT_MS / 1000); left > 0; left--) {
                    String user = String.format(Locale.ROOT, "user%05d", random.nextInt(keys));
                    producer.send(new ProducerRecord<>(input, user, new Payment(random.nextDouble(), System.nanoTime())));
                }
                producer.flush();
                due = Math.max(due + COMMIT_MS * 1_000_000, System.nanoTime() - 1_000_000_000L);
                while (System.nanoTime() < due) {
                    java.util.concurrent.locks.LockSupport.parkNanos(due - System.nanoTime());
                }
            }
        }
    }

    /** From `send` to `poll` in ms, sorted. */
    private static double[] latencies(
            String address, String output, long warm, long measured, AtomicReference<Throwable> failure) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", address, "isolation.level", "read_committed", "auto.offset.reset", "earliest");
        var found = Stream.<Double>builder();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), TOTALS.deserializer())) {
            consumer.assign(IntStream.range(0, PARTITIONS).mapToObj(number -> new TopicPartition(output, number)).toList());
            long began = Long.MAX_VALUE;
            for (long now = 0; began == Long.MAX_VALUE || now < began + measured * 1_000_000_000L; ) {
                if (failure.get() != null) {
                    throw new IllegalStateException("the application failed", failure.get());
                }
                var records = consumer.poll(POLL);
                now = System.nanoTime();
                if (began == Long.MAX_VALUE && !records.isEmpty()) {
                    began = now + warm * 1_000_000_000L;
                }
                if (now >= began) {
                    for (var record : records) {
                        found.add((now - record.value().sent()) / 1e6);
                    }
                }
            }
        }
        return found.build().mapToDouble(Double::doubleValue).sorted().toArray();
    }

    private static double quantile(double[] sorted, double share) {
        return sorted[(int) Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    }
}
