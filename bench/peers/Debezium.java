import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Writes change events to a file as lines of JSON, and prints their number. Settings are name=value. */
public class Debezium {
  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    for (int i = 1; i < arguments.length; i++) {
      String[] pair = arguments[i].split("=", 2);
      settings.setProperty(pair[0], pair[1]);
    }
    long[] seen = new long[1];
    try (OutputStream file = new BufferedOutputStream(new FileOutputStream(arguments[0]), 1 << 20)) {
      DebeziumEngine<ChangeEvent<String, String>> engine =
          DebeziumEngine.create(Json.class)
              .using(settings)
              .notifying(
                  (List<ChangeEvent<String, String>> events,
                      DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                    try {
                      for (ChangeEvent<String, String> event : events) {
                        if (event.value() != null) {
                          file.write(event.value().getBytes(StandardCharsets.UTF_8));
                          file.write('\n');
                          seen[0]++;
                        }
                        committer.markProcessed(event);
                      }
                      file.flush();
                      committer.markBatchFinished();
                      System.out.println(seen[0]);
                    } catch (java.io.IOException failure) {
                      throw new java.io.UncheckedIOException(failure);
                    }
                  })
              .build();
      ExecutorService executor = Executors.newSingleThreadExecutor();
      executor.submit(engine).get();
    }
    System.exit(1);
  }
}
