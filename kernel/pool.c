// SPDX-License-Identifier: GPL-2.0
/* The pool: how much each user may have pinned, and what goes to make room. */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "internal.h"

static unsigned long pool_mib = 1024;
module_param(pool_mib, ulong, 0644);
MODULE_PARM_DESC(pool_mib, "MiB that one user may have pinned (1024); RLIMIT_MEMLOCK holds for each process as well");

static unsigned long pool_regions = 4096;
module_param(pool_regions, ulong, 0644);
MODULE_PARM_DESC(pool_regions, "regions that one user may have (4096)");

static DEFINE_SPINLOCK(users_lock);
static DEFINE_HASHTABLE(users, 8);

/* Held for the caller; NULL where there is no memory. */
struct zh_user *zh_user_get(kuid_t uid)
{
	struct zh_user *user, *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return NULL;
	kref_init(&new->refs);
	new->uid = uid;
	mutex_init(&new->lock);
	INIT_LIST_HEAD(&new->order);
	spin_lock(&users_lock);
	hash_for_each_possible(users, user, all, __kuid_val(uid)) {
		if (!uid_eq(user->uid, uid))
			continue;
		kref_get(&user->refs);
		spin_unlock(&users_lock);
		kfree(new);
		return user;
	}
	hash_add(users, &new->all, __kuid_val(uid));
	spin_unlock(&users_lock);
	return new;
}

static void free_user(struct kref *refs) __releases(&users_lock)
{
	struct zh_user *user = container_of(refs, struct zh_user, refs);

	hash_del(&user->all);
	spin_unlock(&users_lock);
	mutex_destroy(&user->lock);
	kfree(user);
}

void zh_user_put(struct zh_user *user)
{
	kref_put_lock(&user->refs, free_user, &users_lock);
}

/*
 * Takes a region that no copy holds from its user, of `mm` alone where one is given; null where there is none. A
 * revoked one, or nearly the least recently used: who was used since the last look goes to the end of the queue.
 */
static struct zh_region *take_oldest(struct zh_user *user, const struct mm_struct *mm)
{
	unsigned long steps = 2 * user->count;
	struct zh_region *region, *next;

	list_for_each_entry_safe(region, next, &user->order, order) {
		if (steps-- == 0)
			break;
		if (mm && region->mm != mm)
			continue;
		if (READ_ONCE(region->revoked))
			return zh_region_take(region) ? region : NULL;
		if (READ_ONCE(region->used)) {
			WRITE_ONCE(region->used, false);
			list_move_tail(&region->order, &user->order);
			if (list_entry_is_head(next, &user->order, order))
				next = region;
		} else if (kref_read(&region->refs) == 1) {
			return zh_region_take(region) ? region : NULL;
		}
	}
	return NULL;
}

/* What one call may do for room: others may take what it gained, so without an end it might evict for ever. */
struct effort {
	unsigned long evictions;
	bool waited;
};

static struct effort effort_of(struct zh_user *user)
{
	return (struct effort){ .evictions = READ_ONCE(user->count) + 1 };
}

/* By eviction, or once by waiting for what goes already; false where nothing can go. */
static bool make_room(struct zh_user *user, const struct mm_struct *mm, struct effort *effort)
{
	struct zh_region *oldest = NULL;

	if (fatal_signal_pending(current))
		return false;
	if (effort->evictions) {
		effort->evictions--;
		mutex_lock(&user->lock);
		oldest = take_oldest(user, mm);
		mutex_unlock(&user->lock);
	}
	if (oldest) {
		if (!READ_ONCE(oldest->revoked))
			atomic64_inc(&oldest->context->evicted);
		zh_region_retire(oldest);
		return true;
	}
	if (effort->waited)
		return false;
	zh_region_wait();
	effort->waited = true;
	return true;
}

/* Counts in VmPin, as RDMA does: in a count without a lock, which a peer that frees the region cannot wait for. */
static int charge(struct zh_region *region)
{
	unsigned long now = atomic64_add_return(region->page_count, &region->mm->pinned_vm);

	if (now <= rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT || capable(CAP_IPC_LOCK))
		return 0;
	atomic64_sub(region->page_count, &region->mm->pinned_vm);
	return -ENOMEM;
}

static bool fits(struct zh_user *user, unsigned long pages, unsigned long most)
{
	long now = atomic_long_read(&user->pages);

	do {
		if (now + pages > most)
			return false;
	} while (!atomic_long_try_cmpxchg(&user->pages, &now, now + pages));
	return true;
}

/* Counts the pages against the pool and the process, making room in either; not for what can never have it. */
int zh_pool_account(struct zh_region *region)
{
	unsigned long most = min(READ_ONCE(pool_mib), ULONG_MAX >> 20) << (20 - PAGE_SHIFT);
	struct effort effort = effort_of(region->user);
	int err;

	if (region->page_count > most)
		return -EDQUOT;
	if (region->page_count > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT && !capable(CAP_IPC_LOCK))
		return -ENOMEM;
	while (!fits(region->user, region->page_count, most))
		if (!make_room(region->user, NULL, &effort))
			return -EDQUOT;
	do {
		err = charge(region);
	} while (err && make_room(region->user, region->mm, &effort));
	if (err)
		atomic_long_sub(region->page_count, &region->user->pages);
	else
		atomic_long_add(region->page_count, &region->context->pages);
	return err;
}

void zh_pool_release(struct zh_region *region)
{
	atomic64_sub(region->page_count, &region->mm->pinned_vm);
	atomic_long_sub(region->page_count, &region->context->pages);
	atomic_long_sub(region->page_count, &region->user->pages);
}

/* Takes the user's lock, under which there is then room for one region more; without it where there is none. */
int zh_pool_lock(struct zh_user *user)
{
	struct effort effort = effort_of(user);

	mutex_lock(&user->lock);
	while (user->count >= READ_ONCE(pool_regions)) {
		mutex_unlock(&user->lock);
		if (!make_room(user, NULL, &effort))
			return -EDQUOT;
		mutex_lock(&user->lock);
	}
	return 0;
}
