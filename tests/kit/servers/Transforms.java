import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Applies chains of Connect's transforms to records: cases as JSON in the file of the first argument, answers in that of the second. */
public class Transforms {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    record Link(Transformation<SinkRecord> transform, Predicate<SinkRecord> predicate, boolean negate) { }

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "true", "decimal.format", "NUMERIC"), false);
        HEADERS.configure(Map.of());
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode found : JSON.readTree(new File(arguments[0]))) {
            answers.add(answer(found));
        }
        JSON.writeValue(new File(arguments[1]), answers);
    }

    private static JsonNode answer(JsonNode found) {
        ObjectNode answer = JSON.createObjectNode();
        List<Link> chain;
        try {
            chain = chain(found.get("config"));
        } catch (Exception error) {
            return answer.put("refused", String.valueOf(error));
        }
        ArrayNode records = answer.putArray("records");
        for (JsonNode record : found.get("records")) {
            try {
                SinkRecord out = read(record);
                for (Link link : chain) {
                    if (out != null && (link.predicate == null || link.negate ^ link.predicate.test(out))) {
                        out = link.transform.apply(out);
                    }
                }
                records.add(out == null ? JSON.nullNode() : written(out));
            } catch (Exception error) {
                records.add(JSON.createObjectNode().put("error", String.valueOf(error)));
            }
        }
        return answer;
    }

    private static SinkRecord read(JsonNode record) throws Exception {
        SchemaAndValue key = data(record.get("key")), value = data(record.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode pair : record.withArray("headers")) {
            headers.addString(pair.get(0).asText(), pair.get(1).isNull() ? null : pair.get(1).asText());
        }
        Long time = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        return new SinkRecord(record.get("topic").asText(), record.get("partition").asInt(), key.schema(), key.value(),
            value.schema(), value.value(), record.get("offset").asLong(), time, TimestampType.CREATE_TIME, headers);
    }

    private static SchemaAndValue data(JsonNode found) throws Exception {
        return found.isNull() ? SchemaAndValue.NULL : CONVERTER.toConnectData("t", JSON.writeValueAsBytes(found));
    }

    private static JsonNode written(SinkRecord record) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        found.put("topic", record.topic());
        byte[] key = CONVERTER.fromConnectData("t", record.keySchema(), record.key());
        byte[] value = CONVERTER.fromConnectData("t", record.valueSchema(), record.value());
        found.set("key", key == null ? JSON.nullNode() : JSON.readTree(key));
        found.set("value", value == null ? JSON.nullNode() : JSON.readTree(value));
        ArrayNode headers = found.putArray("headers");
        for (Header header : record.headers()) {
            byte[] bytes = HEADERS.fromConnectHeader("t", header.key(), header.schema(), header.value());
            headers.addArray().add(header.key()).add(bytes == null ? null : new String(bytes, java.nio.charset.StandardCharsets.UTF_8));
        }
        return found;
    }

    private static List<Link> chain(JsonNode config) throws Exception {
        Map<String, String> settings = new LinkedHashMap<>();
        config.fields().forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        List<Link> links = new ArrayList<>();
        for (String alias : settings.get("transforms").split(",")) {
            Map<String, String> own = of(settings, "transforms." + alias + ".");
            Predicate<SinkRecord> predicate = null;
            String name = own.remove("predicate");
            boolean negate = Boolean.parseBoolean(own.remove("negate"));
            Transformation<SinkRecord> transform = made(own.remove("type"));
            transform.configure(own);
            if (name != null) {
                Map<String, String> condition = of(settings, "predicates." + name + ".");
                predicate = made(condition.remove("type"));
                predicate.configure(condition);
            }
            links.add(new Link(transform, predicate, negate));
        }
        return links;
    }

    private static Map<String, String> of(Map<String, String> settings, String prefix) {
        Map<String, String> own = new HashMap<>();
        settings.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                own.put(name.substring(prefix.length()), value);
            }
        });
        return own;
    }

    @SuppressWarnings("unchecked")
    private static <T> T made(String name) throws Exception {
        return (T) Class.forName(name).getDeclaredConstructor().newInstance();
    }
}
