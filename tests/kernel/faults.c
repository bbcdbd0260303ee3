// SPDX-License-Identifier: GPL-2.0
/* See faults.h. */
#include <linux/module.h>
#include <linux/sched.h>

static int fail_of; /* of which process; 0: of all */
module_param(fail_of, int, 0644);
static int fail_at; /* the allocation that fails, from 1 on, counted down; 0: none */
module_param(fail_at, int, 0644);
static int failed; /* how many */
module_param(failed, int, 0444);

static atomic_t taken;
static int get_held(char* text, const struct kernel_param* unused) {
  return sysfs_emit(text, "%d\n", atomic_read(&taken));
}
static const struct kernel_param_ops held_ops = {.get = get_held};
module_param_cb(held, &held_ops, NULL, 0444); /* allocations that are not freed */

bool zh_fails(void) {
  if (!fail_at || (fail_of && fail_of != current->tgid) || --fail_at) return false;
  failed++;
  return true;
}

void* zh_taken(void* memory) {
  if (!IS_ERR_OR_NULL(memory)) atomic_inc(&taken);
  return memory;
}

void zh_given(const void* memory) {
  if (!IS_ERR_OR_NULL(memory)) atomic_dec(&taken);
}
