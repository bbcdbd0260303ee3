/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's own types.
 *
 * Locks, outermost first: contexts_lock (context.c), zh_context.lock, zh_region.lock. The notifier, which the kernel
 * calls under locks of its own, takes only the last. A copy takes none of them: it finds a region by RCU and holds it.
 */
#ifndef _ZEROHOP_INTERNAL_H
#define _ZEROHOP_INTERNAL_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "zerohop.h"

/* What the open files share that joined by one secret. Ends with the last file and the last region. */
struct zh_context {
	struct kref refs;
	struct list_head all; /* under contexts_lock, while members > 0 */
	unsigned int members; /* under contexts_lock */
	kuid_t user;
	u8 secret[ZEROHOP_SECRET_BYTES];
	struct mutex lock; /* who comes into regions and goes */
	struct xarray regions; /* by number; read by RCU */
	u64 last_region; /* under lock */
	struct list_head order; /* of regions, those to evict first at the front; under lock */
	unsigned long count; /* of regions, under lock */
	atomic_long_t pages; /* pinned, those of evicted regions included until their copies end */
	atomic64_t registered, pin_ns, evicted, revoked, copies, bytes;
};

struct zh_file {
	struct zh_context *context; /* set once under contexts_lock, read without a lock */
};

/* Pinned memory of one process. Pinned until the last reference goes, which a copy may hold. */
struct zh_region {
	struct kref refs;
	struct rcu_head rcu;
	struct zh_context *context;
	struct zh_file *owner;
	u64 number;
	struct list_head order; /* under context->lock */
	bool used; /* by a copy, since eviction last passed by; not locked */
	u64 start, bytes;
	u32 flags; /* ZEROHOP_READ, ZEROHOP_WRITE */
	spinlock_t lock; /* live, revoked, and the notifier's sequence */
	bool live; /* pages are those that the owner has */
	bool revoked;
	struct mm_struct *mm;
	struct mmu_interval_notifier notifier;
	struct work_struct forget; /* after the notifier, which may not sleep */
	unsigned long page_count, pinned;
	struct page **pages;
};

extern bool zh_any_user;

/* context.c */
int zh_join(struct zh_file *file, const u8 *secret);
void zh_leave(struct zh_file *file);
int zh_allowed(const struct zh_context *context);
void zh_context_put(struct zh_context *context);
unsigned int zh_members(struct zh_context *context);

/* region.c */
int zh_region_init(void);
void zh_region_exit(void);
int zh_register(struct zh_file *file, struct zerohop_register *call);
int zh_unregister(struct zh_file *file, u64 number);
void zh_unregister_all(struct zh_file *file);
struct zh_region *zh_region_get(struct zh_context *context, u64 number);
void zh_region_put(struct zh_region *region);

/* copy.c */
int zh_copy(struct zh_context *context, struct zerohop_copy *call);

#endif
