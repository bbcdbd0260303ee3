// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: pinned memory that others of the context reach.
 *
 * A region leaves its context once, by whoever erases it from the array (take()): its owner, eviction, or the work that
 * a notifier queued. That one removes the notifier and drops the array's reference. Copies that found it before go on
 * with its pages, which stay pinned, so nobody else can have got them; they look at `revoked` between pieces.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "internal.h"
#include "trace.h"

static unsigned long pool_mib = 1024;
module_param(pool_mib, ulong, 0644);
MODULE_PARM_DESC(pool_mib,
		 "MiB that one context may have pinned (1024); RLIMIT_MEMLOCK holds for each process as well");

static unsigned long pool_regions = 4096;
module_param(pool_regions, ulong, 0644);
MODULE_PARM_DESC(pool_regions, "regions that one context may have (4096)");

#define PIN_AT_ONCE 1024 /* pages, between two looks at signals */
#define PIN_TRIES 8 /* pinning may change the mapping itself: pages are migrated, or their own copies made */

static struct workqueue_struct *forgetting;

/* What was never live nobody has written. */
static void unpin(struct zh_region *region)
{
	const bool dirty = region->live && region->flags & ZEROHOP_WRITE;

	while (region->pinned) {
		unsigned long pages = min_t(unsigned long, region->pinned, PIN_AT_ONCE);

		region->pinned -= pages;
		unpin_user_pages_dirty_lock(region->pages + region->pinned, pages, dirty);
		cond_resched();
	}
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

static void free_region(struct kref *refs)
{
	struct zh_region *region = container_of(refs, struct zh_region, refs);

	unpin(region);
	atomic64_sub(region->page_count, &region->mm->pinned_vm);
	atomic_long_sub(region->page_count, &region->context->pages);
	mmdrop(region->mm);
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

/* Out of the array, under context->lock; false where somebody else has done so. */
static bool take(struct zh_region *region)
{
	struct zh_context *context = region->context;

	lockdep_assert_held(&context->lock);
	if (!region->number || xa_load(&context->regions, region->number) != region)
		return false;
	xa_erase(&context->regions, region->number);
	list_del(&region->order);
	context->count--;
	return true;
}

/* After take(), without locks: waits for the notifier and its work, and drops the array's reference. */
static void retire(struct zh_region *region)
{
	mmu_interval_notifier_remove(&region->notifier);
	if (cancel_work_sync(&region->forget))
		zh_region_put(region);
	zh_region_put(region);
}

static void forget(struct work_struct *work)
{
	struct zh_region *region = container_of(work, struct zh_region, forget);
	bool taken;

	mutex_lock(&region->context->lock);
	taken = take(region);
	mutex_unlock(&region->context->lock);
	if (taken) {
		mmu_interval_notifier_remove(&region->notifier);
		zh_region_put(region);
	}
	zh_region_put(region);
}

/* The pages stay the owner's: of mprotect, of which NUMA balancing makes use some times a second, and clear_refs. */
static bool keeps_pages(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_PROTECTION_VMA || range->event == MMU_NOTIFY_SOFT_DIRTY;
}

/* The owner changes its mapping: the kernel waits here until nobody begins a copy with these pages any more. */
static bool invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
		       unsigned long sequence)
{
	struct zh_region *region = container_of(notifier, struct zh_region, notifier);

	spin_lock(&region->lock);
	mmu_interval_set_seq(notifier, sequence);
	if (region->live && !region->revoked && !keeps_pages(range)) {
		WRITE_ONCE(region->revoked, true);
		atomic64_inc(&region->context->revoked);
		trace_zerohop_revoke(region->number, range->event);
		kref_get(&region->refs);
		queue_work(forgetting, &region->forget);
	}
	spin_unlock(&region->lock);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_ops = { .invalidate = invalidate };

/*
 * Before 6.5 the kernel itself does not refuse to pin pages of files for writing, whose file systems would not hear of
 * the writing. Memory without a file, shared memory and huge pages have none.
 */
static bool may_be_written(struct page **pages, int count)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	int i;

	for (i = 0; i < count; i++) {
		struct folio *folio = page_folio(pages[i]);

		if (!folio_test_anon(folio) && !folio_test_swapbacked(folio) && !folio_test_hugetlb(folio))
			return false;
	}
#endif
	return true;
}

static int pin(struct zh_region *region)
{
	unsigned int how = FOLL_LONGTERM;

	if (region->flags & ZEROHOP_WRITE)
		how |= FOLL_WRITE;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	else /* these kernels pin for reading what the owner's next write replaces */
		how |= FOLL_WRITE | FOLL_FORCE;
#endif
	while (region->pinned < region->page_count) {
		unsigned long left = region->page_count - region->pinned;
		int pinned = pin_user_pages_fast((region->start & PAGE_MASK) + region->pinned * PAGE_SIZE,
						 min_t(unsigned long, left, PIN_AT_ONCE), how,
						 region->pages + region->pinned);

		if (pinned <= 0)
			return pinned ? pinned : -EFAULT;
		region->pinned += pinned;
		if (region->flags & ZEROHOP_WRITE && !may_be_written(region->pages + region->pinned - pinned, pinned))
			return -EFAULT;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Pages that were the owner's at one moment, from which on the notifier tells. */
static int pin_stable(struct zh_region *region)
{
	int tries, err;

	for (tries = 0; tries < PIN_TRIES; tries++) {
		unsigned long sequence = mmu_interval_read_begin(&region->notifier);

		err = pin(region);
		if (err)
			return err;
		spin_lock(&region->lock);
		region->live = !mmu_interval_read_retry(&region->notifier, sequence);
		spin_unlock(&region->lock);
		if (region->live)
			return 0;
		unpin(region);
	}
	return -EAGAIN;
}

/*
 * Takes a region that no copy holds out of its context, of `mm` alone where one is given; null where there is none.
 * A revoked one, or nearly the least recently used: who was used since the last look goes to the end of the queue.
 */
static struct zh_region *take_oldest(struct zh_context *context, const struct mm_struct *mm)
{
	unsigned long steps = 2 * context->count;
	struct zh_region *region, *next;

	list_for_each_entry_safe(region, next, &context->order, order) {
		if (steps-- == 0)
			break;
		if (mm && region->mm != mm)
			continue;
		if (READ_ONCE(region->revoked))
			return take(region) ? region : NULL;
		if (READ_ONCE(region->used)) {
			WRITE_ONCE(region->used, false);
			list_move_tail(&region->order, &context->order);
			if (list_entry_is_head(next, &context->order, order))
				next = region;
		} else if (kref_read(&region->refs) == 1) {
			return take(region) ? region : NULL;
		}
	}
	return NULL;
}

/* By eviction, or once by waiting for what goes already; false where nothing can go. */
static bool make_room(struct zh_context *context, const struct mm_struct *mm, bool *waited)
{
	struct zh_region *oldest;

	mutex_lock(&context->lock);
	oldest = take_oldest(context, mm);
	mutex_unlock(&context->lock);
	if (oldest) {
		if (!READ_ONCE(oldest->revoked))
			atomic64_inc(&context->evicted);
		retire(oldest);
		return true;
	}
	if (*waited)
		return false;
	flush_workqueue(forgetting);
	*waited = true;
	return true;
}

static bool fits(struct zh_context *context, unsigned long pages, unsigned long most)
{
	long now = atomic_long_read(&context->pages);

	do {
		if (now + pages > most)
			return false;
	} while (!atomic_long_try_cmpxchg(&context->pages, &now, now + pages));
	return true;
}

/* Counts the pages against the pool and the process, making room in either; not for what can never have it. */
static int account(struct zh_region *region)
{
	struct zh_context *context = region->context;
	unsigned long most = min(READ_ONCE(pool_mib), ULONG_MAX >> 20) << (20 - PAGE_SHIFT);
	bool waited = false;
	int err;

	if (region->page_count > most)
		return -EDQUOT;
	if (region->page_count > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT && !capable(CAP_IPC_LOCK))
		return -ENOMEM;
	while (!fits(context, region->page_count, most))
		if (!make_room(context, NULL, &waited))
			return -EDQUOT;
	do {
		err = charge(region);
	} while (err && make_room(context, region->mm, &waited));
	if (err)
		atomic_long_sub(region->page_count, &context->pages);
	return err;
}

/* From here on anybody may end the region, which is not looked at again: its number is given out under the lock. */
static int publish(struct zh_region *region, u64 *number)
{
	struct zh_context *context = region->context;
	bool waited = false;
	int err = -EAGAIN;

	mutex_lock(&context->lock);
	while (context->count >= READ_ONCE(pool_regions)) {
		mutex_unlock(&context->lock);
		if (!make_room(context, NULL, &waited))
			return -EDQUOT;
		mutex_lock(&context->lock);
	}
	if (!READ_ONCE(region->revoked)) {
		region->number = context->last_region + 1;
		err = xa_insert(&context->regions, region->number, region, GFP_KERNEL_ACCOUNT);
		if (err) {
			region->number = 0;
		} else {
			context->last_region++;
			context->count++;
			list_add_tail(&region->order, &context->order);
			*number = region->number;
		}
	}
	mutex_unlock(&context->lock);
	return err;
}

static struct zh_region *new_region(struct zh_file *file, const struct zerohop_register *call)
{
	u64 pages = PAGE_ALIGN((call->address & ~PAGE_MASK) + call->bytes) >> PAGE_SHIFT;
	struct zh_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);

	if (!region)
		return NULL;
	kref_init(&region->refs);
	spin_lock_init(&region->lock);
	INIT_WORK(&region->forget, forget);
	region->context = file->context;
	region->owner = file;
	region->flags = call->flags;
	region->start = call->address;
	region->bytes = call->bytes;
	region->page_count = pages;
	region->mm = current->mm;
	return region;
}

int zh_register(struct zh_file *file, struct zerohop_register *call)
{
	u64 end, begun = ktime_get_ns();
	struct zh_region *region;
	int err;

	if (!call->bytes || !call->flags || call->flags & ~(ZEROHOP_READ | ZEROHOP_WRITE))
		return -EINVAL;
	if (check_add_overflow(call->address, call->bytes, &end) || end > TASK_SIZE)
		return -EFAULT;
	region = new_region(file, call);
	if (!region)
		return -ENOMEM;
	err = account(region);
	if (err)
		goto no_region;
	mmgrab(region->mm);
	kref_get(&region->context->refs);
	/* from here on free_region() undoes it */
	err = -ENOMEM;
	region->pages = kvmalloc_array(region->page_count, sizeof(*region->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!region->pages)
		goto put;
	err = mmu_interval_notifier_insert(&region->notifier, region->mm, region->start & PAGE_MASK,
					   region->page_count * PAGE_SIZE, &notifier_ops);
	if (err)
		goto put;
	err = pin_stable(region);
	if (!err)
		err = publish(region, &call->region);
	if (err) {
		retire(region);
		return err;
	}
	atomic64_inc(&file->context->registered);
	atomic64_add(ktime_get_ns() - begun, &file->context->pin_ns);
	trace_zerohop_register(call->region, call->bytes, ktime_get_ns() - begun);
	return 0;
put:
	zh_region_put(region);
	return err;
no_region:
	kfree(region);
	return err;
}

int zh_unregister(struct zh_file *file, u64 number)
{
	struct zh_context *context = file->context;
	struct zh_region *region;
	bool taken = false;

	mutex_lock(&context->lock);
	region = number > ULONG_MAX ? NULL : xa_load(&context->regions, number);
	if (region && region->owner == file)
		taken = take(region);
	mutex_unlock(&context->lock);
	if (!taken)
		return -ENOENT;
	retire(region);
	return 0;
}

void zh_unregister_all(struct zh_file *file)
{
	struct zh_context *context = file->context;
	struct zh_region *region;
	unsigned long number;

	if (!context)
		return;
	mutex_lock(&context->lock);
	xa_for_each(&context->regions, number, region) {
		if (region->owner != file || !take(region))
			continue;
		mutex_unlock(&context->lock);
		retire(region);
		mutex_lock(&context->lock);
	}
	mutex_unlock(&context->lock);
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
