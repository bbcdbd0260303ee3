/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before each file of the module in a build for tests alone: what allocates can be made to fail, and is
 * counted. Debian's kernels have no fault injection of their own.
 */
#ifndef ZH_TEST_FAULTS_H
#define ZH_TEST_FAULTS_H

#include <linux/err.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

bool zh_fails(void);
void* zh_taken(void* memory); /* counts it, and returns it */
void zh_given(const void* memory);

static inline void* zh_kzalloc(size_t bytes, gfp_t how) { return zh_fails() ? NULL : zh_taken(kzalloc(bytes, how)); }

static inline void* zh_kvmalloc_array(size_t count, size_t bytes, gfp_t how) {
  return zh_fails() ? NULL : zh_taken(kvmalloc_array(count, bytes, how));
}

static inline void zh_kfree(const void* memory) {
  zh_given(memory);
  kfree(memory);
}

static inline void zh_kfree_sensitive(const void* memory) {
  zh_given(memory);
  kfree_sensitive(memory);
}

static inline void zh_kvfree(const void* memory) {
  zh_given(memory);
  kvfree(memory);
}

static inline struct workqueue_struct* zh_alloc_workqueue(const char* name, unsigned int flags, int most) {
  return zh_fails() ? NULL : alloc_workqueue("%s", flags, most, name);
}

#undef kzalloc
#undef kvmalloc_array
#undef kfree_rcu
#define kzalloc zh_kzalloc
#define kvmalloc_array zh_kvmalloc_array
#define kfree zh_kfree
#define kfree_sensitive zh_kfree_sensitive
#define kvfree zh_kvfree
#define kfree_rcu(pointer, field)     \
  do {                                \
    zh_given(pointer);                \
    kvfree_rcu_arg_2(pointer, field); \
  } while (0)
#define xa_insert(...) (zh_fails() ? -ENOMEM : xa_insert(__VA_ARGS__))
#define mmu_notifier_register(...) (zh_fails() ? -ENOMEM : mmu_notifier_register(__VA_ARGS__))
#define pin_user_pages_fast(...) (zh_fails() ? -ENOMEM : pin_user_pages_fast(__VA_ARGS__))
#define misc_register(...) (zh_fails() ? -ENOMEM : misc_register(__VA_ARGS__))
#undef alloc_workqueue
#define alloc_workqueue zh_alloc_workqueue

#endif
