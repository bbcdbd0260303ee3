// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: pinned memory that others of the context reach.
 *
 * A region is found by its number, in the context, or by its addresses, in its owner's file, from publish() until
 * somebody takes it (zh_region_take()): its owner, eviction, or the work that a notifier queued. That one drops the
 * reference. Copies that found it before go on with its pages, which stay pinned, so nobody else can have got them;
 * they look at `revoked` between pieces.
 *
 * One notifier of the whole mapping serves all regions of a file. To remove one of a range (mmu_interval_notifier)
 * takes until the owner's mapping comes to rest, which another user's process could put off for ever.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "internal.h"
#include "trace.h"

#define PIN_TRIES 8 /* pinning may change the mapping itself: pages are migrated, or their own copies made */

static struct workqueue_struct *forgetting;

static void free_region(struct kref *refs)
{
	struct zh_region *region = container_of(refs, struct zh_region, refs);

	zh_unpin(region);
	if (region->pages)
		zh_pool_release(region);
	mmdrop(region->mm);
	zh_user_put(region->user);
	zh_context_put(region->context);
	kvfree(region->pages);
	kfree_rcu(region, rcu);
}

void zh_region_put(struct zh_region *region)
{
	kref_put(&region->refs, free_region);
}

/* A region that can be copied from or to, held for the caller; NULL where there is none. */
struct zh_region *zh_region_get(struct zh_context *context, u64 number)
{
	struct zh_region *region = NULL;

	if (number > ULONG_MAX)
		return NULL;
	rcu_read_lock();
	region = xa_load(&context->regions, number);
	if (region && (READ_ONCE(region->revoked) || !kref_get_unless_zero(&region->refs)))
		region = NULL;
	rcu_read_unlock();
	if (region && !READ_ONCE(region->used))
		WRITE_ONCE(region->used, true);
	return region;
}

/* The caller's or a member's region that covers the range and allows this; under file->lock. */
static struct zh_region *find(struct zh_file *file, u64 start, u64 bytes, u32 flags)
{
	struct interval_tree_node *node;

	lockdep_assert_held(&file->lock);
	for (node = interval_tree_iter_first(&file->regions, start, start); node;
	     node = interval_tree_iter_next(node, start, start)) {
		struct zh_region *region = container_of(node, struct zh_region, range);

		if (region->number && (region->flags & flags) == flags && zh_region_covers(region, start, bytes)) {
			WRITE_ONCE(region->used, true);
			return region;
		}
	}
	return NULL;
}

/* The same of a member's addresses, held for the caller. */
struct zh_region *zh_region_of_member(struct zh_context *context, u64 member, const struct zerohop_segment *range,
				      u32 flags)
{
	struct zh_region *region = NULL;
	struct zh_file *file;

	if (member > U32_MAX || range->at > ULONG_MAX)
		return NULL;
	rcu_read_lock();
	file = xa_load(&context->files, member);
	if (file) {
		spin_lock(&file->lock);
		region = find(file, range->at, range->bytes, flags);
		if (region)
			kref_get(&region->refs);
		spin_unlock(&file->lock);
	}
	rcu_read_unlock();
	return region;
}

/* Nobody finds it by its addresses, and no notifier knows it. */
static void hide(struct zh_region *region)
{
	struct zh_file *file = region->owner;

	spin_lock(&file->lock);
	interval_tree_remove(&region->range, &file->regions);
	spin_unlock(&file->lock);
}

/* From here on nobody finds it; under user->lock. False where somebody else has taken it, or nobody ever could. */
bool zh_region_take(struct zh_region *region)
{
	lockdep_assert_held(&region->user->lock);
	if (list_empty(&region->order))
		return false;
	list_del_init(&region->order);
	xa_erase(&region->context->regions, region->number);
	hide(region);
	region->user->count--;
	atomic_long_dec(&region->context->count);
	return true;
}

/* After taking it, without locks: waits for the notifier's work, and drops the reference. */
void zh_region_retire(struct zh_region *region)
{
	if (cancel_work_sync(&region->forget))
		zh_region_put(region);
	zh_region_put(region);
}

static void forget(struct work_struct *work)
{
	struct zh_region *region = container_of(work, struct zh_region, forget);
	bool taken;

	mutex_lock(&region->user->lock);
	taken = zh_region_take(region);
	mutex_unlock(&region->user->lock);
	if (taken)
		zh_region_put(region);
	zh_region_put(region);
}

/* The pages stay the owner's: of mprotect, of which NUMA balancing makes use some times a second, and clear_refs. */
static bool keeps_pages(enum mmu_notifier_event event)
{
	return event == MMU_NOTIFY_PROTECTION_VMA || event == MMU_NOTIFY_SOFT_DIRTY;
}

/* Nobody begins a copy with these pages any more. What is being pinned begins again. */
static void revoke(struct zh_file *file, unsigned long from, unsigned long last, enum mmu_notifier_event event)
{
	struct interval_tree_node *node;

	lockdep_assert_held(&file->lock);
	for (node = interval_tree_iter_first(&file->regions, from, last); node;
	     node = interval_tree_iter_next(node, from, last)) {
		struct zh_region *region = container_of(node, struct zh_region, range);

		if (region->revoked || (region->live && keeps_pages(event)))
			continue;
		WRITE_ONCE(region->revoked, true);
		if (!region->live)
			continue;
		atomic64_inc(&region->context->revoked);
		trace_zerohop_revoke(region->number, event);
		kref_get(&region->refs);
		queue_work(forgetting, &region->forget);
	}
}

/* The owner begins to change its mapping: the kernel waits here. */
static int change_begins(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct zh_file *file = container_of(notifier, struct zh_file, notifier);
	unsigned long from = range->start & PAGE_MASK, last = (range->end - 1) | ~PAGE_MASK;

	spin_lock(&file->lock);
	if (file->changes++) {
		file->changes_from = min(file->changes_from, from);
		file->changes_last = max(file->changes_last, last);
	} else {
		file->changes_from = from;
		file->changes_last = last;
	}
	revoke(file, from, last, range->event);
	spin_unlock(&file->lock);
	return 0;
}

static void change_ends(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct zh_file *file = container_of(notifier, struct zh_file, notifier);

	spin_lock(&file->lock);
	file->changes--;
	spin_unlock(&file->lock);
}

static void process_ends(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct zh_file *file = container_of(notifier, struct zh_file, notifier);

	spin_lock(&file->lock);
	revoke(file, 0, ULONG_MAX, MMU_NOTIFY_RELEASE);
	spin_unlock(&file->lock);
}

static const struct mmu_notifier_ops notifier_ops = {
	.invalidate_range_start = change_begins,
	.invalidate_range_end = change_ends,
	.release = process_ends,
};

/* From here on the file hears of what the calling process does with its mapping, until mmu_notifier_unregister(). */
int zh_watch(struct zh_file *file)
{
	file->notifier.ops = &notifier_ops;
	return mmu_notifier_register(&file->notifier, current->mm);
}

static int make_place(struct zh_region *region)
{
	int err = zh_pool_account(region);

	if (err)
		return err;
	region->pages = kvmalloc_array(region->page_count, sizeof(*region->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (region->pages)
		return 0;
	zh_pool_release(region);
	return -ENOMEM;
}

/*
 * Pages that were the owner's at one moment, from which on the notifier tells. Nothing is evicted for what cannot be
 * pinned.
 */
static int pin_stable(struct zh_region *region)
{
	struct zh_file *file = region->owner;
	int tries, err;

	for (tries = 0; tries < PIN_TRIES; tries++) {
		spin_lock(&file->lock);
		region->revoked = file->changes && file->changes_from <= region->range.last &&
				  region->range.start <= file->changes_last;
		spin_unlock(&file->lock);
		err = zh_look(region);
		if (!err && !region->pages)
			err = make_place(region);
		if (!err)
			err = READ_ONCE(region->revoked) ? -EAGAIN : zh_pin(region);
		if (err && err != -EAGAIN)
			return err;
		spin_lock(&file->lock);
		region->live = !err && !region->revoked;
		spin_unlock(&file->lock);
		if (region->live)
			return 0;
		zh_unpin(region);
		usleep_range(20, 100);
	}
	return -EAGAIN;
}

/* From here on anybody may end the region, which is not looked at again: its number is given out under the lock. */
static int publish(struct zh_region *region, struct zerohop_register *call)
{
	struct zh_context *context = region->context;
	struct zh_file *file = region->owner;
	int err = zh_pool_lock(region->user);
	u64 number = 0;

	if (err)
		return err;
	err = -EAGAIN;
	if (!READ_ONCE(region->revoked)) {
		number = atomic64_inc_return(&context->last_region);
		err = xa_insert(&context->regions, number, region, GFP_KERNEL_ACCOUNT);
	}
	if (!err) {
		list_add_tail(&region->order, &region->user->order);
		spin_lock(&file->lock);
		region->number = number;
		spin_unlock(&file->lock);
		region->user->count++;
		atomic_long_inc(&context->count);
		call->region = number;
	}
	mutex_unlock(&region->user->lock);
	return err;
}

static struct zh_region *new_region(struct zh_file *file, const struct zerohop_register *call)
{
	struct zh_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);

	if (!region)
		return NULL;
	kref_init(&region->refs);
	INIT_LIST_HEAD(&region->order);
	INIT_WORK(&region->forget, forget);
	region->context = file->context;
	region->user = file->user;
	region->owner = file;
	region->flags = call->flags & (ZEROHOP_READ | ZEROHOP_WRITE);
	region->range.start = call->address;
	region->range.last = call->address + call->bytes - 1;
	region->page_count = (region->range.last >> PAGE_SHIFT) - (region->range.start >> PAGE_SHIFT) + 1;
	region->mm = current->mm;
	return region;
}

static int register_new(struct zh_file *file, struct zerohop_register *call)
{
	u64 begun = ktime_get_ns();
	struct zh_region *region = new_region(file, call);
	int err;

	if (!region)
		return -ENOMEM;
	mmgrab(region->mm);
	kref_get(&region->user->refs);
	kref_get(&region->context->refs);
	/* from here on free_region() undoes it */
	spin_lock(&file->lock);
	interval_tree_insert(&region->range, &file->regions);
	spin_unlock(&file->lock);
	err = pin_stable(region);
	if (!err)
		err = publish(region, call);
	if (err) {
		hide(region);
		zh_region_retire(region);
		return err;
	}
	atomic64_inc(&file->context->registered);
	atomic64_add(ktime_get_ns() - begun, &file->context->pin_ns);
	trace_zerohop_register(call->region, call->bytes, ktime_get_ns() - begun);
	return 0;
}

static bool reuse(struct zh_file *file, struct zerohop_register *call)
{
	struct zh_region *region;

	spin_lock(&file->lock);
	region = find(file, call->address, call->bytes, call->flags & (ZEROHOP_READ | ZEROHOP_WRITE));
	if (region) {
		call->region = region->number;
		call->address = region->range.start;
		call->bytes = zh_region_bytes(region);
	}
	spin_unlock(&file->lock);
	return region;
}

int zh_register(struct zh_file *file, struct zerohop_register *call)
{
	u64 end;

	if (!call->bytes || !(call->flags & (ZEROHOP_READ | ZEROHOP_WRITE)) ||
	    call->flags & ~(ZEROHOP_READ | ZEROHOP_WRITE | ZEROHOP_REUSE))
		return -EINVAL;
	if (current->mm != file->mm)
		return -EPERM;
	if (check_add_overflow(call->address, call->bytes, &end) || end > TASK_SIZE)
		return -EFAULT;
	return call->flags & ZEROHOP_REUSE && reuse(file, call) ? 0 : register_new(file, call);
}

int zh_unregister(struct zh_file *file, u64 number)
{
	struct zh_region *region = zh_region_get(file->context, number);
	bool taken = false;

	if (!region)
		return -ENOENT;
	if (region->owner == file) {
		mutex_lock(&file->user->lock);
		taken = zh_region_take(region);
		mutex_unlock(&file->user->lock);
	}
	if (taken)
		zh_region_retire(region);
	zh_region_put(region);
	return taken ? 0 : -ENOENT;
}

/* Of a file that nobody registers with any more. */
void zh_unregister_all(struct zh_file *file)
{
	struct zh_region *region;

	do {
		struct interval_tree_node *first;

		mutex_lock(&file->user->lock);
		first = interval_tree_iter_first(&file->regions, 0, ULONG_MAX);
		region = first ? container_of(first, struct zh_region, range) : NULL;
		if (region)
			zh_region_take(region);
		mutex_unlock(&file->user->lock);
		if (region)
			zh_region_retire(region);
	} while (region);
}

/* Until what was revoked before is gone. */
void zh_region_wait(void)
{
	flush_workqueue(forgetting);
}

int zh_region_init(void)
{
	forgetting = alloc_workqueue("zerohop", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return forgetting ? 0 : -ENOMEM;
}

/* All files are closed: what is left is work that was queued before. */
void zh_region_exit(void)
{
	destroy_workqueue(forgetting);
	rcu_barrier();
}
