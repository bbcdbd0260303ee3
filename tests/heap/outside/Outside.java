import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * A Java program as others write them: threads that allocate, collections, big arrays, memory outside the heap, mapped
 * files, libraries in C, child processes. It prints checksums that depend on contents alone.
 */
public final class Outside {
  private static void fill(byte[] bytes, int seed) {
    for (int i = 0; i < bytes.length; ++i) bytes[i] = (byte) (seed + i * 31);
  }

  private static long check(byte[] bytes, int seed, String what) {
    long sum = bytes.length;
    for (int i = 0; i < bytes.length; ++i) {
      if (bytes[i] != (byte) (seed + i * 31)) throw new IllegalStateException("wrong " + what + " at " + i);
      sum = sum * 1099511628211L + bytes[i];
    }
    return sum;
  }

  private static byte[] fresh(int n) {
    byte[] bytes = new byte[n];
    for (byte b : bytes) {
      if (b != 0) throw new IllegalStateException("new memory is not zero");
    }
    return bytes;
  }

  private static long allocate(int thread) {
    SplittableRandom random = new SplittableRandom(thread);
    Map<Integer, byte[]> kept = new HashMap<>();
    long sum = 0;
    for (int i = 0; i < 400; ++i) {
      byte[] bytes = fresh(random.nextInt(i % 8 == 0 ? 1 << 20 : 4096));
      int key = random.nextInt(16);
      fill(bytes, key);
      byte[] old = kept.put(key, bytes);
      if (old != null) sum += check(old, key, "kept array");
    }
    for (Map.Entry<Integer, byte[]> entry : kept.entrySet()) sum += check(entry.getValue(), entry.getKey(), "last array");
    return sum;
  }

  private static long parallel() throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> futures = new ArrayList<>();
    for (int i = 0; i < 8; ++i) {
      final int thread = i;
      futures.add(pool.submit((Callable<Long>) () -> allocate(thread)));
    }
    long sum = 0;
    for (Future<Long> future : futures) sum += future.get();
    pool.shutdown();
    return sum;
  }

  private static long collections() throws Exception {
    long sum = 0;
    for (int round = 0; round < 3; ++round) {
      byte[] big = fresh(32 << 20);
      fill(big, round);
      sum += parallel() + check(big, round, "big array");
      big = null;
      System.gc();
    }
    return sum;
  }

  private static long outsideTheHeap() {
    long sum = 0;
    SplittableRandom random = new SplittableRandom(5);
    byte[] copy = new byte[3 << 20];
    for (int i = 0; i < 20; ++i) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(random.nextInt(1, copy.length));
      while (buffer.hasRemaining()) {
        if (buffer.get() != 0) throw new IllegalStateException("a new direct buffer is not zero");
      }
      buffer.rewind();
      fill(copy, i);
      buffer.put(copy, 0, buffer.capacity()).rewind();
      byte[] back = new byte[buffer.capacity()];
      buffer.get(back);
      sum += check(back, i, "direct buffer");
    }
    return sum;
  }

  private static long files() throws Exception {
    File file = File.createTempFile("outside", ".bin");
    byte[] bytes = new byte[5 << 20];
    fill(bytes, 3);
    try (FileChannel channel =
        FileChannel.open(file.toPath(), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes.length);
      map.put(bytes);
      map.force();
      ByteBuffer back = ByteBuffer.allocateDirect(bytes.length);
      while (back.hasRemaining() && channel.read(back) > 0) {}
      back.rewind();
      back.get(bytes);
    } finally {
      file.delete();
    }
    return check(bytes, 3, "mapped file");
  }

  private static long libraries() throws Exception {
    byte[] bytes = new byte[4 << 20];
    fill(bytes, 4);
    Deflater deflater = new Deflater();
    deflater.setInput(bytes);
    deflater.finish();
    byte[] packed = new byte[bytes.length + 100];
    int n = deflater.deflate(packed);
    deflater.end();
    byte[] back = new byte[bytes.length];
    Inflater inflater = new Inflater();
    inflater.setInput(packed, 0, n);
    inflater.inflate(back);
    inflater.end();
    CRC32 crc = new CRC32();
    crc.update(packed, 0, n);
    return check(back, 4, "packed array") + crc.getValue();
  }

  private static long children() throws Exception {
    long sum = 0;
    for (int i = 0; i < 3; ++i) {
      Process process = new ProcessBuilder("cat").redirectError(ProcessBuilder.Redirect.INHERIT).start();
      final byte[] bytes = new byte[2 << 20];
      fill(bytes, i);
      Thread writer =
          new Thread(
              () -> {
                try (OutputStream out = process.getOutputStream()) {
                  out.write(bytes);
                } catch (Exception problem) {
                  throw new IllegalStateException(problem);
                }
              });
      writer.start();
      try (InputStream in = process.getInputStream()) {
        byte[] said = in.readAllBytes();
        if (said.length != bytes.length) throw new IllegalStateException("a child lost bytes");
        sum += check(said, i, "child's bytes");
      }
      writer.join();
      sum += process.waitFor();
    }
    return sum;
  }

  public static void main(String[] arguments) throws Exception {
    System.out.printf("collections %016x%n", collections());
    System.out.printf("outside the heap %016x%n", outsideTheHeap());
    System.out.printf("files %016x%n", files());
    System.out.printf("libraries %016x%n", libraries());
    System.out.printf("children %016x%n", children());
    System.out.printf("after children %016x%n", parallel());
  }
}
