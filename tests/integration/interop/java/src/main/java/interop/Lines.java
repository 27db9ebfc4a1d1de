package interop;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import sun.misc.Signal;

/** The output of both programs: one JSON object a line. */
final class Lines {
  private Lines() {}

  /** What a processor was given. */
  static void given(String partition, List<Long> numbers) {
    print("{\"partition\": \"" + partition + "\", \"numbers\": " + numbers + "}");
  }

  /** What its error handler was told. */
  static void failed(String partition, Throwable error) {
    String text = String.valueOf(error).replaceAll("[\\\\\"\\p{Cntrl}]", " ");
    print("{\"error\": \"" + partition + ": " + text + "\"}");
  }

  /** Waits until the process is told to stop. */
  static void untilTerminated() throws InterruptedException {
    CountDownLatch stop = new CountDownLatch(1);
    Signal.handle(new Signal("TERM"), signal -> stop.countDown());
    print("{\"started\": true}");
    stop.await();
  }

  private static synchronized void print(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
