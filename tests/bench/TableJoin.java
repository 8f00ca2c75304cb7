import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The benchmark's `table_join` in Kafka Streams: payments meet users, and every pair goes to a topic, exactly once.
 *
 * <pre>
 * TableJoin load ADDRESS FORMAT PAYMENTS USERS                         fills the topics; prints the records sent
 * TableJoin join ADDRESS FORMAT STATE RECORDS FIRST [NAME=VALUE ...]   prints records a second without the first, and rows written
 * </pre>
 *
 * FORMAT is `json` (string keys, values by Jackson) or `binary` (keys of 8 bytes, values at fixed offsets).
 * STATE is a new folder, whose name is the application's too. NAME=VALUE overrides a setting.
 */
public final class TableJoin {
    private static final int PARTITIONS = 2;
    private static final int NAMES = 9;
    private static final long LOOK_MS = 2;
    private static final long LOOKS_A_COMMIT = 1000;
    private static final Duration POLL = Duration.ofSeconds(1);

    public static final class Payment {
        public double amount;
        public long ts;
    }

    public static final class User {
        public String users_name;
    }

    public static final class Pair {
        public double amount;
        public long ts;
        public String users_name;

        static Pair of(Payment payment, User user) {
            Pair pair = new Pair();
            pair.amount = payment.amount;
            pair.ts = payment.ts;
            pair.users_name = user.users_name;
            return pair;
        }
    }

    /** How keys and values are written. */
    private record Format<K>(IntFunction<K> key, Serde<K> keys, Serde<Payment> payments, Serde<User> users, Serde<Pair> pairs) {}

    public static void main(String[] given) throws Exception {
        Format<?> format = given[2].equals("json") ? json() : binary();
        String payments = "payments-" + given[2];
        String users = "users-" + given[2];
        if (given[0].equals("load")) {
            System.out.println("sent " + load(given[1], format, payments, users, Path.of(given[3]), Integer.parseInt(given[4])));
        } else {
            Path state = Path.of(given[3]);
            Properties settings = settings(given[1], state, List.of(given).subList(6, given.length));
            try (Run run = new Run(settings, payments, users, state.getFileName() + "-joined", format)) {
                double rate = run.rate(Long.parseLong(given[4]), Long.parseLong(given[5]));
                System.out.printf(Locale.ROOT, "rate %.1f%nrows %d%n", rate, run.rows());
            }
        }
    }

    // Formats

    private static Format<String> json() {
        // Quicker numbers than Jackson's default: amounts have seventeen digits.
        JsonFactory factory = JsonFactory.builder()
                .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
                .enable(StreamWriteFeature.USE_FAST_DOUBLE_WRITER)
                .build();
        ObjectMapper mapper = new ObjectMapper(factory);
        return new Format<>(
                number -> String.format(Locale.ROOT, "user%07d", number),
                Serdes.String(),
                json(mapper, Payment.class),
                json(mapper, User.class),
                json(mapper, Pair.class));
    }

    private static <T> Serde<T> json(ObjectMapper mapper, Class<T> type) {
        var reader = mapper.readerFor(type);
        var writer = mapper.writerFor(type);
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

    private static Format<Long> binary() {
        return new Format<>(
                number -> (long) number,
                Serdes.Long(),
                Serdes.serdeFrom((topic, value) -> bytesOf(value), (topic, bytes) -> paymentOf(bytes)),
                Serdes.serdeFrom((topic, value) -> bytesOf(value), (topic, bytes) -> userOf(bytes)),
                Serdes.serdeFrom((topic, value) -> bytesOf(value), (topic, bytes) -> pairOf(bytes)));
    }

    private static byte[] bytesOf(Payment payment) {
        return ByteBuffer.allocate(16).putDouble(payment.amount).putLong(payment.ts).array();
    }

    private static byte[] bytesOf(User user) {
        return user == null ? null : user.users_name.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytesOf(Pair pair) {
        byte[] name = pair.users_name.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(16 + name.length).putDouble(pair.amount).putLong(pair.ts).put(name).array();
    }

    private static Payment paymentOf(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Payment payment = new Payment();
        payment.amount = buffer.getDouble(0);
        payment.ts = buffer.getLong(8);
        return payment;
    }

    private static User userOf(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        User user = new User();
        user.users_name = new String(bytes, StandardCharsets.UTF_8);
        return user;
    }

    private static Pair pairOf(byte[] bytes) {
        return Pair.of(paymentOf(bytes), userOf(Arrays.copyOfRange(bytes, 16, bytes.length)));
    }

    // Loading

    /** Send all users, before any payment in event time, and the payments of a file: user, amount and microseconds, 20 bytes each. */
    private static <K> long load(String address, Format<K> format, String payments, String users, Path file, int count)
            throws Exception {
        create(address, payments, users);
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", address, "acks", "all", "compression.type", "lz4",
                "batch.size", 524288, "linger.ms", 20, "buffer.memory", 134217728L);
        List<byte[]> keys = IntStream.range(0, count)
                .mapToObj(number -> format.keys.serializer().serialize(users, format.key.apply(number)))
                .toList();
        long sent = 0;
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes);
                var input = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 20))) {
            for (int number = 0; number < count; number++) {
                User user = new User();
                user.users_name = "users" + number % NAMES;
                byte[] value = format.users.serializer().serialize(users, user);
                producer.send(new ProducerRecord<>(users, null, 0L, keys.get(number), value));
            }
            for (long left = Files.size(file) / 20; left > 0; left--) {
                byte[] key = keys.get(input.readInt());
                Payment payment = new Payment();
                payment.amount = input.readDouble();
                payment.ts = input.readLong();
                byte[] value = format.payments.serializer().serialize(payments, payment);
                producer.send(new ProducerRecord<>(payments, null, payment.ts / 1000, key, value));
                sent++;
            }
        }
        return sent;
    }

    private static void create(String address, String... topics) throws Exception {
        // Event time begins in 1970, so nothing may be too old to be kept.
        Map<String, String> kept = Map.of("retention.ms", "-1", "file.delete.delay.ms", "1000");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            List<NewTopic> wanted = Stream.of(topics)
                    .map(topic -> new NewTopic(topic, PARTITIONS, (short) 1).configs(kept))
                    .toList();
            admin.createTopics(wanted).all().get();
        }
    }

    // Joining

    private static Properties settings(String address, Path state, List<String> overrides) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("application.id", state.getFileName().toString());
        settings.put("state.dir", state.toString());
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");
        for (String override : overrides) {
            String[] both = override.split("=", 2);
            settings.put(both[0], both[1]);
        }
        return settings;
    }

    /** One application from its start to its end; its output topic goes with it. */
    private static final class Run implements AutoCloseable {
        private final LongAdder joined = new LongAdder();
        private final AtomicReference<Throwable> failure = new AtomicReference<>();
        private final Admin admin;
        private final KafkaStreams streams;
        private final Properties settings;
        private final String payments;
        private final String users;
        private final String output;

        <K> Run(Properties settings, String payments, String users, String output, Format<K> format) throws Exception {
            this.settings = settings;
            this.payments = payments;
            this.users = users;
            this.output = output;
            create(settings.getProperty("bootstrap.servers"), output);
            admin = Admin.create(Map.of("bootstrap.servers", settings.get("bootstrap.servers")));
            streams = new KafkaStreams(topology(format), settings);
            streams.setUncaughtExceptionHandler(error -> {
                failure.set(error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
        }

        private <K> Topology topology(Format<K> format) {
            StreamsBuilder builder = new StreamsBuilder();
            var table = builder.table(users, Consumed.with(format.keys, format.users), Materialized.as("users"));
            builder.stream(payments, Consumed.with(format.keys, format.payments))
                    .join(table, this::pair, Joined.with(format.keys, format.payments, format.users))
                    .to(output, Produced.with(format.keys, format.pairs));
            return builder.build();
        }

        private Pair pair(Payment payment, User user) {
            joined.increment();
            return Pair.of(payment, user);
        }

        /** Records a second from the one behind the first `unmeasured` to the commit of the last offset of every input. */
        double rate(long records, long unmeasured) throws Exception {
            Map<TopicPartition, Long> ends = ends(payments, users);
            streams.start();
            while (joined.sum() <= unmeasured) {
                pause();
            }
            long before = joined.sum();
            long began = System.nanoTime();
            for (long looks = 1; joined.sum() < records; looks++) {
                pause();
                if (looks % LOOKS_A_COMMIT == 0 && isCommitted(ends)) {
                    throw new IllegalStateException(joined.sum() + " of " + records + " records found their user");
                }
            }
            while (!isCommitted(ends)) {
                pause();
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            streams.close();
            return (records - before) / seconds;
        }

        private void pause() throws InterruptedException {
            if (failure.get() != null) {
                throw new IllegalStateException("the application failed", failure.get());
            }
            Thread.sleep(LOOK_MS);
        }

        private boolean isCommitted(Map<TopicPartition, Long> ends) throws Exception {
            Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(settings.getProperty("application.id"))
                    .partitionsToOffsetAndMetadata()
                    .get();
            return ends.entrySet().stream().allMatch(end -> {
                OffsetAndMetadata offset = committed.get(end.getKey());
                return end.getValue() == 0 || offset != null && offset.offset() >= end.getValue();
            });
        }

        private Map<TopicPartition, Long> ends(String... topics) throws Exception {
            Map<TopicPartition, Long> ends = new HashMap<>();
            for (TopicPartition partition : partitions(topics)) {
                var found = admin.listOffsets(Map.of(partition, OffsetSpec.latest()));
                ends.put(partition, found.partitionResult(partition).get().offset());
            }
            return ends;
        }

        /** Committed records of the output; markers of transactions take offsets too, so the records are read. */
        long rows() {
            Map<String, Object> reading = Map.of(
                    "bootstrap.servers", settings.get("bootstrap.servers"), "isolation.level", "read_committed",
                    "auto.offset.reset", "earliest", "max.poll.records", 100000);
            var bytes = new ByteArrayDeserializer();
            long rows = 0;
            try (var consumer = new KafkaConsumer<>(reading, bytes, bytes)) {
                Collection<TopicPartition> partitions = partitions(output);
                consumer.assign(partitions);
                consumer.seekToBeginning(partitions);
                Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
                while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                    rows += consumer.poll(POLL).count();
                }
            }
            return rows;
        }

        private static List<TopicPartition> partitions(String... topics) {
            return Stream.of(topics)
                    .flatMap(topic -> IntStream.range(0, PARTITIONS).mapToObj(number -> new TopicPartition(topic, number)))
                    .toList();
        }

        @Override
        public void close() throws ExecutionException, InterruptedException {
            streams.close();
            admin.deleteTopics(List.of(output)).all().get();
            admin.close();
        }
    }
}
