import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Reads lines of two doubles, as hexadecimal bits, and prints them and what StrictMath computes of them, in the order of the test's FUNCTIONS. */
public class StrictMathByJava {
    public static void main(String[] arguments) throws Exception {
        BufferedReader reader = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder found = new StringBuilder();
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            String[] parts = line.split("\t");
            double x = Double.longBitsToDouble(Long.parseUnsignedLong(parts[0], 16));
            double y = Double.longBitsToDouble(Long.parseUnsignedLong(parts[1], 16));
            double[] results = {
                StrictMath.sinh(x), StrictMath.cosh(x), StrictMath.tanh(x), StrictMath.asin(x),
                StrictMath.acos(x), StrictMath.atan(x), StrictMath.cbrt(x), StrictMath.atan2(x, y),
            };
            found.append(parts[0]).append('\t').append(parts[1]);
            for (double result : results) {
                found.append('\t').append(String.format("%016x", Double.doubleToLongBits(result)));
            }
            found.append('\n');
        }
        System.out.print(found);
    }
}
