import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Reads lines of a pattern and a text, as hexadecimal UTF-16, and prints where the matches are. */
public class FoundByJava {
    public static void main(String[] arguments) throws Exception {
        BufferedReader reader = new BufferedReader(new InputStreamReader(System.in));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            String[] parts = line.split("\t", -1);
            StringBuilder found = new StringBuilder();
            try {
                Matcher matcher = Pattern.compile(text(parts[0])).matcher(text(parts[1]));
                while (matcher.find()) {
                    found.append(matcher.start()).append('-').append(matcher.end()).append(' ');
                }
            } catch (PatternSyntaxException error) {
                found = new StringBuilder("refused");
            }
            System.out.println(found.toString().trim());
        }
    }

    private static String text(String units) {
        StringBuilder found = new StringBuilder();
        for (int place = 0; place < units.length(); place += 4) {
            found.append((char) Integer.parseInt(units.substring(place, place + 4), 16));
        }
        return found.toString();
    }
}
