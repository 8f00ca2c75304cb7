import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Counts one record of each key in Kafka Streams, exactly once; then loses the state, and restores it.
 *
 * <pre>
 * DistinctCount ADDRESS STATE KEYS        prints records counted and keys restored a second
 * </pre>
 *
 * Records count from the first that is processed, to the one whose result is the last. A restore counts from its first batch to its last.
 */
public final class DistinctCount {
    private static final int PARTITIONS = 4;
    private static final long LOOK_MS = 2;

    public static void main(String[] given) throws Exception {
        int keys = Integer.parseInt(given[2]);
        load(given[0], keys);
        Path state = Path.of(given[1]);
        try (Run run = new Run(given[0], state)) {
            System.out.printf(Locale.ROOT, "counted %.1f%n", run.counted(keys));
        }
        delete(state);
        try (Run run = new Run(given[0], state)) {
            System.out.printf(Locale.ROOT, "restored %.1f%n", run.restored());
        }
    }

    private static void load(String address, int keys) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            List<NewTopic> topics = Stream.of("visits", "counted")
                    .map(name -> new NewTopic(name, PARTITIONS, (short) 1))
                    .toList();
            admin.createTopics(topics).all().get();
        }
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", address, "acks", "all", "compression.type", "lz4",
                "batch.size", 524288, "linger.ms", 20, "buffer.memory", 134217728L);
        List<Integer> order = IntStream.range(0, keys).boxed().collect(Collectors.toList());
        Collections.shuffle(order, new Random(0));
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            for (int number : order) {
                producer.send(new ProducerRecord<>("visits", String.format(Locale.ROOT, "key%09d", number), ""));
            }
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** One application from its start to its end. */
    private static final class Run implements AutoCloseable {
        private final LongAdder seen = new LongAdder();
        private final AtomicReference<Throwable> failure = new AtomicReference<>();
        private final Restores restores = new Restores();
        private final KafkaStreams streams;

        Run(String address, Path state) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", address);
            settings.put("application.id", "count");
            settings.put("state.dir", state.toString());
            settings.put("processing.guarantee", "exactly_once_v2");
            settings.put("num.stream.threads", "2");
            settings.put("auto.offset.reset", "earliest");
            StreamsBuilder builder = new StreamsBuilder();
            builder.stream("visits", Consumed.with(Serdes.String(), Serdes.String()))
                    .peek((key, value) -> seen.increment())
                    .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                    .count(Materialized.as("counts"))
                    .toStream()
                    .to("counted", Produced.with(Serdes.String(), Serdes.Long()));
            streams = new KafkaStreams(builder.build(), settings);
            streams.setGlobalStateRestoreListener(restores);
            streams.setUncaughtExceptionHandler(error -> {
                failure.set(error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
        }

        double counted(long records) throws InterruptedException {
            while (seen.sum() == 0) {
                pause();
            }
            long began = System.nanoTime();
            while (seen.sum() < records) {
                pause();
            }
            return records / ((System.nanoTime() - began) / 1e9);
        }

        double restored() throws InterruptedException {
            while (restores.ended.sum() < PARTITIONS) {
                pause();
            }
            return restores.records.sum() / ((restores.last - restores.first) / 1e9);
        }

        private void pause() throws InterruptedException {
            if (failure.get() != null) {
                throw new IllegalStateException("the application failed", failure.get());
            }
            Thread.sleep(LOOK_MS);
        }

        @Override
        public void close() {
            streams.close();
        }
    }

    private static final class Restores implements StateRestoreListener {
        private final LongAdder records = new LongAdder();
        private final LongAdder ended = new LongAdder();
        private volatile long first;
        private volatile long last;

        @Override
        public synchronized void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            first = first == 0 ? System.nanoTime() : first;
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            records.add(count);
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition partition, String store, long count) {
            last = System.nanoTime();
            ended.increment();
        }
    }
}
