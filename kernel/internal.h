/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's own types.
 *
 * Locks, outermost first: zh_file.join, joining (context.c), zh_user.lock, users_lock (pool.c) or zh_file.lock. The
 * notifier, which the kernel calls under locks of its own, takes only the last. A copy takes zh_file.lock of the member
 * whose addresses it has, for as long as it looks for the region; by a region's number it takes none.
 *
 * Nothing here waits for another process: whoever was passed a file ends it, and anybody evicts, at once.
 */
#ifndef _ZEROHOP_INTERNAL_H
#define _ZEROHOP_INTERNAL_H

#include <linux/interval_tree.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "zerohop.h"

/* Whom the pool belongs to: all contexts and regions of one user. Ends with the last file and the last region. */
struct zh_user {
	struct kref refs;
	struct hlist_node all; /* under users_lock */
	kuid_t uid;
	unsigned int contexts; /* made by this user, with members; under joining */
	struct mutex lock; /* which regions there are */
	struct list_head order; /* of regions, those to evict first at the front; under lock */
	unsigned long count; /* of regions, under lock */
	atomic_long_t pages; /* pinned, those of evicted regions included until their copies end */
};

/* What the open files share that joined by one secret. Ends with the last file and the last region. */
struct zh_context {
	struct kref refs;
	struct hlist_node all; /* under joining, while members > 0 */
	unsigned int members; /* under joining */
	u32 last_member; /* under joining */
	struct zh_user *user; /* who made it */
	u8 secret[ZEROHOP_SECRET_BYTES];
	struct xarray files; /* by number of the member; read by RCU */
	struct xarray regions; /* by number; read by RCU */
	atomic64_t last_region;
	atomic_long_t count, pages; /* of regions, now */
	atomic64_t registered, pin_ns, evicted, revoked, copies, bytes;
};

/* All but the regions is set once, before context is under joining, and read after it without a lock. */
struct zh_file {
	struct rcu_head rcu;
	struct zh_context *context;
	struct zh_user *user; /* whose pool its regions are of */
	struct mm_struct *mm; /* of the process that joined: whose addresses the member's are */
	u32 member;
	struct mutex join; /* one call at a time */
	struct mmu_notifier notifier; /* of mm, while there is a context */
	spinlock_t lock; /* what follows, and what its regions say of it */
	struct rb_root_cached regions; /* by address, those being pinned too */
	unsigned int changes; /* of the mapping, under way, all of them in [changes_from, changes_last] */
	unsigned long changes_from, changes_last;
};

/* Pinned memory of one process. Pinned until the last reference goes, which a copy may hold. */
struct zh_region {
	struct kref refs;
	struct rcu_head rcu;
	struct zh_context *context;
	struct zh_user *user;
	struct zh_file *owner; /* gone before the region where it is in no list any more */
	u64 number; /* under owner->lock; 0 until it is published */
	struct list_head order; /* under user->lock; empty while nobody can find the region */
	struct interval_tree_node range; /* addresses, the last included */
	bool used; /* since eviction last passed by; not locked */
	u32 flags; /* ZEROHOP_READ, ZEROHOP_WRITE */
	bool live; /* pages were those that the owner has; under owner->lock */
	bool revoked; /* they are not any more; under owner->lock */
	struct mm_struct *mm;
	struct work_struct forget; /* after the notifier, which may not sleep */
	unsigned long page_count, pinned;
	struct page **pages;
};

static inline u64 zh_region_bytes(const struct zh_region *region)
{
	return (u64)region->range.last - region->range.start + 1;
}

static inline bool zh_region_covers(const struct zh_region *region, u64 start, u64 bytes)
{
	return start >= region->range.start && start <= region->range.last && bytes - 1 <= region->range.last - start &&
	       !READ_ONCE(region->revoked);
}

/* context.c */
void zh_context_init(void);
int zh_join(struct zh_file *file, const u8 *secret);
void zh_leave(struct zh_file *file);
int zh_allowed(const struct zh_context *context);
void zh_context_put(struct zh_context *context);

/* pool.c */
struct zh_user *zh_user_get(kuid_t uid);
void zh_user_put(struct zh_user *user);
int zh_pool_account(struct zh_region *region);
void zh_pool_release(struct zh_region *region);
int zh_pool_lock(struct zh_user *user);

/* pin.c */
int zh_look(const struct zh_region *region);
int zh_pin(struct zh_region *region);
void zh_unpin(struct zh_region *region);

/* region.c */
int zh_region_init(void);
void zh_region_exit(void);
int zh_register(struct zh_file *file, struct zerohop_register *call);
int zh_unregister(struct zh_file *file, u64 number);
void zh_unregister_all(struct zh_file *file);
int zh_watch(struct zh_file *file);
struct zh_region *zh_region_get(struct zh_context *context, u64 number);
struct zh_region *zh_region_of_member(struct zh_context *context, u64 member, const struct zerohop_segment *range,
				      u32 flags);
void zh_region_put(struct zh_region *region);
bool zh_region_take(struct zh_region *region);
void zh_region_retire(struct zh_region *region);
void zh_region_wait(void);

/* copy.c */
int zh_copy(struct zh_context *context, struct zerohop_copy *call);

#endif
