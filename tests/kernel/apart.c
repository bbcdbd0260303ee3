/* Runs a program as containers do:  apart WORD... -- PROGRAM [ARGUMENT...]
 *   user        as an ordinary user
 *   namespaces  in a user, process and mount namespace of its own, with its own /proc
 *   seccomp     without process_vm_readv, process_vm_writev and ptrace: EPERM
 * Exit code: the program's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kUser = 1000 };

static void must(int done, const char* what) {
  if (done) return;
  perror(what);
  exit(126);
}

static void put(const char* path, const char* text) {
  const int file = open(path, O_WRONLY);
  must(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
  close(file);
}

static void own_namespaces(void) {
  char map[64];
  const unsigned user = getuid();
  must(unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) == 0, "unshare");
  snprintf(map, sizeof map, "%u %u 1", user, user);
  put("/proc/self/setgroups", "deny");
  put("/proc/self/uid_map", map);
  put("/proc/self/gid_map", map);
  const pid_t child = fork();
  must(child >= 0, "fork");
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount /");
  must(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
}

static void forbid_copies(void) {
#define FORBID(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, kRefuse)
  enum { kRefuse = SECCOMP_RET_ERRNO | EPERM };
  struct sock_filter words[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      FORBID(SYS_process_vm_readv),
      FORBID(SYS_process_vm_writev),
      FORBID(SYS_ptrace),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof words / sizeof *words, words};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
       "seccomp");
}

int main(int count, char** words) {
  int i = 1;
  for (; i < count && strcmp(words[i], "--") != 0; i++) {
    if (strcmp(words[i], "user") == 0)
      must(setgid(kUser) == 0 && setuid(kUser) == 0, "setuid");
    else if (strcmp(words[i], "namespaces") == 0)
      own_namespaces();
    else if (strcmp(words[i], "seccomp") == 0)
      forbid_copies();
    else
      must(0, words[i]);
  }
  if (i + 1 < count) execv(words[i + 1], words + i + 1);
  perror("exec");
  return 127;
}
