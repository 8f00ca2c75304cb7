import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Reads lines of a way to make a map, a type and keys as hexadecimal UTF-16, and prints at which places the keys were, in the map's order. */
public class MapsByJava {
    public static void main(String[] arguments) throws Exception {
        BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            String[] parts = line.split("\t", -1);
            List<Object> keys = new ArrayList<>();
            for (int place = 3; place < parts.length; place++) {
                keys.add(key(parts[1], parts[place]));
            }
            Map<Object, Integer> made = made(parts[0], keys, Integer.parseInt(parts[2]));
            System.out.println(made.values().stream().map(String::valueOf).collect(Collectors.joining(" ")));
        }
    }

    private static Map<Object, Integer> made(String way, List<Object> keys, int cut) {
        if (way.equals("collected")) {
            return entries(keys, 0, keys.size()).stream().collect(Collectors.toMap(one -> one[0], one -> (Integer) one[1]));
        }
        if (way.equals("merged")) {
            return entries(keys, 0, keys.size()).stream()
                .collect(Collectors.toMap(one -> one[0], one -> (Integer) one[1], (one, other) -> other));
        }
        if (way.equals("united")) {
            Map<Object, Integer> found = new HashMap<>();
            found.putAll(sized(entries(keys, 0, cut)));
            found.putAll(sized(entries(keys, cut, keys.size())));
            return found;
        }
        return sized(entries(keys, 0, keys.size()));
    }

    private static Map<Object, Integer> sized(List<Object[]> entries) {
        Map<Object, Integer> found = new HashMap<>(entries.size());
        for (Object[] one : entries) {
            found.put(one[0], (Integer) one[1]);
        }
        return found;
    }

    private static List<Object[]> entries(List<Object> keys, int start, int end) {
        List<Object[]> found = new ArrayList<>();
        for (int place = start; place < end; place++) {
            found.add(new Object[] {keys.get(place), place});
        }
        return found;
    }

    private static Object key(String type, String text) {
        switch (type) {
            case "int":
                return Integer.valueOf(text);
            case "bigint":
                return Long.valueOf(text);
            case "double":
                return Double.longBitsToDouble(Long.parseLong(text));
            case "boolean":
                return Boolean.valueOf(text);
            case "date":
                return new java.sql.Date(Long.parseLong(text));
            case "timestamp":
                return new java.sql.Timestamp(Long.parseLong(text));
            default:
                StringBuilder found = new StringBuilder();
                for (int place = 0; place < text.length(); place += 4) {
                    found.append((char) Integer.parseInt(text.substring(place, place + 4), 16));
                }
                return found.toString();
        }
    }
}
