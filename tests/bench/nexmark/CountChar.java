import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/** How often a character of one byte is in a text: the function of query 14. */
public class CountChar extends ScalarFunction {
    public long eval(@DataTypeHint("STRING") StringData text, @DataTypeHint("STRING") StringData character) {
        if (text == null) return 0;
        byte wanted = character.toBytes()[0];
        long count = 0;
        for (byte one : text.toBytes()) if (one == wanted) count++;
        return count;
    }
}
