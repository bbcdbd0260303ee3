// Denies system calls to the program that it becomes, as the filter of a container does: enter NAME... -- command.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char* name;
  unsigned number;
  int error;
} kCalls[] = {
    {"memfd_create", SYS_memfd_create, EPERM},
    {"process_vm_readv", SYS_process_vm_readv, EPERM},
    {"process_vm_writev", SYS_process_vm_writev, EPERM},
    {"pidfd_open", SYS_pidfd_open, EPERM},
    {"clone", SYS_clone, EAGAIN},
    {"clone3", SYS_clone3, EAGAIN},
    {"fallocate", SYS_fallocate, ENOSYS},
};
enum { kMost = sizeof kCalls / sizeof *kCalls };

int main(int argc, char** argv) {
  struct sock_filter filter[2 * kMost + 2];
  unsigned short length = 0;
  int i = 1;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    int k = 0;
    while (k < kMost && strcmp(kCalls[k].name, argv[i]) != 0) ++k;
    if (k == kMost || length > 2 * kMost) {
      fprintf(stderr, "enter: cannot deny %s\n", argv[i]);
      return 2;
    }
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCalls[k].number, 0, 1);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)kCalls[k].error);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, filter};
  if (i + 1 >= argc) return 2;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("enter");
    return 2;
  }
  execvp(argv[i + 1], argv + i + 1);
  perror(argv[i + 1]);
  return 127;
}
