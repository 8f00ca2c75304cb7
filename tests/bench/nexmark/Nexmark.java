import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Nexmark's queries on Flink SQL, one after another in this JVM, each over one folder of events after another.
 *
 * <pre>java Nexmark QUERIES TEXTS WORK EVENTS...</pre>
 *
 * QUERIES as in q0,q1; TEXTS the folder of their files; WORK a folder for state and files; EVENTS folders of packed events.
 * Prints a line of JSON for each run: query, events (the folder's name), cpu (processor seconds of the JVM since the first
 * source had its file, so without planning and deployment), or failed.
 */
public class Nexmark {
    static final Map<String, String> SETTINGS = new LinkedHashMap<>();
    static final Map<String, String> TABLES = Map.of(
        "person", "id BIGINT, name VARCHAR, emailAddress VARCHAR, creditCard VARCHAR, city VARCHAR, state VARCHAR, `dateTime` TIMESTAMP(3), extra VARCHAR",
        "auction", "id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR",
        "bid", "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, `dateTime` TIMESTAMP(3), extra VARCHAR");
    static final String CREATE = "CREATE TABLE %s (%s, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) WITH ('connector' = 'packed', 'path' = '%s')";
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    static {
        SETTINGS.put("parallelism.default", "2");
        SETTINGS.put("taskmanager.numberOfTaskSlots", "2");
        SETTINGS.put("taskmanager.memory.managed.size", "2g");
        SETTINGS.put("taskmanager.memory.network.min", "256m");
        SETTINGS.put("taskmanager.memory.network.max", "256m");
        SETTINGS.put("rest.port", "0");
        SETTINGS.put("rest.bind-port", "0");
        SETTINGS.put("restart-strategy.type", "none");
        SETTINGS.put("state.backend.type", "rocksdb");
        SETTINGS.put("execution.checkpointing.interval", "10 s");
        SETTINGS.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        SETTINGS.put("execution.checkpointing.incremental", "true");
        SETTINGS.put("execution.checkpointing.checkpoints-after-tasks-finish.enabled", "false"); // the sink drops everything
        SETTINGS.put("table.local-time-zone", "UTC");
        // What Nexmark's own configuration sets.
        SETTINGS.put("table.exec.mini-batch.enabled", "true");
        SETTINGS.put("table.exec.mini-batch.allow-latency", "2 s");
        SETTINGS.put("table.exec.mini-batch.size", "50000");
        SETTINGS.put("table.optimizer.distinct-agg.split.enabled", "true");
        SETTINGS.put("pipeline.object-reuse", "true");
    }

    private static double begun;

    /** A source has its file; what the first one of a run finds is where that run's time begins. */
    static synchronized void sourceBegins() {
        if (begun == 0) begun = SYSTEM.getProcessCpuTime() / 1e9;
    }

    public static void main(String[] args) throws Exception {
        Path texts = Path.of(args[1]), work = Path.of(args[2]);
        for (String query : args[0].split(",")) {
            for (int place = 3; place < args.length; place++) {
                Path events = Path.of(args[place]);
                String found;
                try {
                    found = String.format(Locale.ROOT, "\"cpu\": %.3f", seconds(Files.readString(texts.resolve(query + ".sql")), events, work));
                } catch (Exception error) {
                    Throwable cause = error;
                    while (cause.getCause() != null) cause = cause.getCause();
                    found = "\"failed\": \"" + String.valueOf(cause).replaceAll("[\"\\\\\\s]+", " ") + "\"";
                }
                System.out.printf("{\"query\": \"%s\", \"events\": %s, %s}%n", query, events.getFileName(), found);
                System.out.flush();
            }
        }
        System.exit(0);
    }

    /** Processor seconds of one run. */
    private static double seconds(String text, Path events, Path work) throws Exception {
        System.gc();
        Configuration configuration = new Configuration();
        SETTINGS.forEach(configuration::setString);
        configuration.setString("execution.checkpointing.dir", "file://" + work.resolve("checkpoints"));
        configuration.setString("state.backend.rocksdb.localdir", work.resolve("rocksdb").toString());
        configuration.setString("io.tmp.dirs", work.resolve("tmp").toString());
        StreamTableEnvironment tables = StreamTableEnvironment.create(StreamExecutionEnvironment.getExecutionEnvironment(configuration));
        SETTINGS.forEach((key, value) -> { if (key.startsWith("table.")) tables.getConfig().set(key, value); });
        TABLES.forEach((name, columns) -> tables.executeSql(CREATE.formatted(name, columns, events.resolve(name))));
        begun = 0;
        TableResult result = null;
        for (String statement : hereOnly(text, work).split(";"))
            if (!statement.isBlank()) result = tables.executeSql(statement);
        result.await();
        return SYSTEM.getProcessCpuTime() / 1e9 - begun;
    }

    /** The text with what it names beside the query: a function, where files go, and the small table of query 13. */
    private static String hereOnly(String text, Path work) {
        return text.replaceAll("(?m)--.*$", "")
            .replaceAll("'com\\.github\\.nexmark\\.[\\w.]*CountChar'", "'CountChar'")
            .replaceAll("'file://\\$\\{NEXMARK_DIR}[^']*'", "'file://" + work.resolve("files").resolve(Long.toString(System.nanoTime())) + "'")
            .replaceAll("(?s)'connector.type'.*?'csv'", "'connector' = 'side'");
    }
}
