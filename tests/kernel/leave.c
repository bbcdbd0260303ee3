/* Ends a virtual machine of QEMU with its device isa-debug-exit:  leave 0|1  gives the exit code 33 or 35. */
#include <string.h>
#include <sys/io.h>

int main(int count, char** words) {
  if (ioperm(0xf4, 1, 1) != 0) return 1;
  outb(count > 1 && strcmp(words[1], "0") == 0 ? 16 : 17, 0xf4);
  return 1;
}
