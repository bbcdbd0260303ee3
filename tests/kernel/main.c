/* Runs the cases, or those whose names contain a word:  module_test [WORD]
 * Exit code: how many failed. The last line: "N passed, N failed". */
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

#include "test.h"

enum { kLimitS = 900 };

static int passes(const struct Case* c) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    alarm(kLimitS);
    if (!c->as_root && getuid() == 0) become(kUser);
    c->body();
    _exit(0);
  }
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  if (WIFSIGNALED(status)) printf("    ended by signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char** words) {
  const struct Case* const kAll[] = {kCallCases,   kMemberCases, kMemoryCases, kLimitCases,
                                     kRevokeCases, kLoadCases,   kFaultCases};
  const size_t all = sizeof kAll / sizeof *kAll;
  int passed = 0, failed = 0;
  for (size_t i = 0; i < all; i++) {
    if (i == all - 1 && access("/sys/module/zerohop/parameters/fail_at", F_OK) != 0) break;
    for (const struct Case* c = kAll[i]; c->name; c++) {
      if (count > 1 && !strstr(c->name, words[1])) continue;
      struct timespec from, to;
      clock_gettime(CLOCK_MONOTONIC, &from);
      const int good = passes(c);
      clock_gettime(CLOCK_MONOTONIC, &to);
      const double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
      printf("%-44s %s %6.2f s\n", c->name, good ? "passed" : "FAILED", s);
      fflush(stdout);
      good ? passed++ : failed++;
    }
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 99 ? 99 : failed;
}
