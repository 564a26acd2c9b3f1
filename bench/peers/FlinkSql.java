import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs a file of SQL statements, each ended by a semicolon at the end of a line, in a cluster within this process. */
public class FlinkSql {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    for (int i = 1; i < arguments.length; i++) {
      String[] pair = arguments[i].split("=", 2);
      conf.setString(pair[0], pair[1]);
    }
    TableEnvironment env =
        TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(conf).build());
    for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*\\n")) {
      if (statement.isBlank()) continue;
      TableResult result = env.executeSql(statement);
      if (result.getJobClient().isPresent()) result.await();
    }
  }
}
