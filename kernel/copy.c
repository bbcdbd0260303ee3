// SPDX-License-Identifier: GPL-2.0
/* Copies between the caller's memory and a region, or what a member has registered. */
#include <linux/highmem.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

#define PIECE (64 * 1024) /* bytes between two looks at signals, the scheduler and the owner's mapping */

struct cursor {
	struct zerohop_segment *segments;
	u32 count, at;
	u64 done; /* of segments[at] */
};

/* What `there` is of. */
struct target {
	struct zh_context *context;
	u64 member; /* 0: offsets into the region */
	u32 needs; /* of the region's flags */
	struct zh_region *region; /* held */
	u64 origin; /* what is added to a segment's `at` for the place in the region's pages */
};

static u64 left_here(struct cursor *c)
{
	while (c->at < c->count && c->done == c->segments[c->at].bytes) {
		c->at++;
		c->done = 0;
	}
	return c->at < c->count ? c->segments[c->at].bytes - c->done : 0;
}

static int fetch(struct cursor *c, u64 list, u32 count)
{
	if (count == 0 || count > ZEROHOP_MAX_SEGMENTS)
		return -EINVAL;
	c->segments = kvmalloc_array(count, sizeof(*c->segments), GFP_KERNEL_ACCOUNT);
	if (!c->segments)
		return -ENOMEM;
	c->count = count;
	return copy_from_user(c->segments, u64_to_user_ptr(list), count * sizeof(*c->segments)) ? -EFAULT : 0;
}

static int within(const struct cursor *c, u64 bytes)
{
	u32 i;

	for (i = 0; i < c->count; i++)
		if (c->segments[i].at > bytes || c->segments[i].bytes > bytes - c->segments[i].at)
			return -ERANGE;
	return 0;
}

/* As copy_from_user(), which would zero what is missing: bytes of the region's owner that are not to change. */
static u64 read_user(char *kernel, void __user *user, u64 bytes)
{
	if (!access_ok(user, bytes))
		return bytes;
	barrier_nospec();
	return __copy_from_user(kernel, user, bytes);
}

/* Bytes of one page at most; less than `bytes` where the caller's memory ends. */
static u64 copy_in_page(struct page *page, u64 offset, void __user *user, u64 bytes, bool to_region)
{
	char *kernel = kmap_local_page(page);
	u64 missing = to_region ? read_user(kernel + offset, user, bytes) : copy_to_user(user, kernel + offset, bytes);

	kunmap_local(kernel);
	return bytes - missing;
}

/* The member's region that covers the segment; often the same as before. */
static int reach(struct target *target, const struct zerohop_segment *segment)
{
	if (target->region && zh_region_covers(target->region, segment->at, segment->bytes))
		return 0;
	if (target->region)
		zh_region_put(target->region);
	target->region = zh_region_of_member(target->context, target->member, segment, target->needs);
	if (!target->region)
		return -ENOENT;
	target->origin = -(u64)(target->region->range.start & PAGE_MASK);
	return 0;
}

/* The region of this number, which has all segments. */
static int find(struct target *target, u64 number, const struct cursor *there)
{
	target->region = zh_region_get(target->context, number);
	if (!target->region)
		return -ENOENT;
	if (!(target->region->flags & target->needs))
		return -EACCES;
	target->origin = target->region->range.start & ~PAGE_MASK;
	return within(there, zh_region_bytes(target->region));
}

static int move(struct target *target, struct cursor *here, struct cursor *there, u64 *copied)
{
	const bool to_region = target->needs & ZEROHOP_WRITE;
	u64 since = 0;

	for (;;) {
		u64 bytes = min(left_here(here), left_here(there)), at, done;
		unsigned long page;

		if (!bytes)
			return 0;
		if (target->member && !there->done) {
			int err = reach(target, &there->segments[there->at]);

			if (err)
				return err;
			since += PIECE / 64; /* looking for it takes time too */
		}
		at = target->origin + there->segments[there->at].at + there->done;
		bytes = min_t(u64, bytes, PAGE_SIZE - (at & ~PAGE_MASK));
		page = array_index_nospec(at >> PAGE_SHIFT, target->region->page_count);
		done = copy_in_page(target->region->pages[page], at & ~PAGE_MASK,
				    u64_to_user_ptr(here->segments[here->at].at + here->done), bytes, to_region);
		here->done += done;
		there->done += done;
		*copied += done;
		since += done;
		if (done < bytes)
			return -EFAULT;
		if (since < PIECE)
			continue;
		since = 0;
		if (READ_ONCE(target->region->revoked))
			return -ENOENT;
		if (signal_pending(current))
			return 0;
		cond_resched();
	}
}

int zh_copy(struct zh_context *context, struct zerohop_copy *call)
{
	const bool by_address = call->flags & ZEROHOP_OF_MEMBER, times = call->flags & ZEROHOP_TIMES;
	struct target target = { .context = context };
	u64 begun = times ? ktime_get_ns() : 0, found = 0;
	struct cursor here = {}, there = {};
	int err;

	call->copied = call->lookup_ns = call->copy_ns = 0;
	if (call->flags & ~(ZEROHOP_TO_REGION | ZEROHOP_TIMES | ZEROHOP_OF_MEMBER) || (by_address && !call->region))
		return -EINVAL;
	target.member = by_address ? call->region : 0;
	target.needs = call->flags & ZEROHOP_TO_REGION ? ZEROHOP_WRITE : ZEROHOP_READ;
	err = fetch(&here, call->here, call->here_count);
	if (!err)
		err = fetch(&there, call->there, call->there_count);
	if (!err && !by_address)
		err = find(&target, call->region, &there);
	else if (!err && left_here(&there))
		err = reach(&target, &there.segments[there.at]);
	if (err)
		goto out;
	if (times)
		found = ktime_get_ns();
	err = signal_pending(current) ? -EINTR : move(&target, &here, &there, &call->copied);
	if (times) {
		call->lookup_ns = found - begun;
		call->copy_ns = ktime_get_ns() - found;
	}
	atomic64_inc(&context->copies);
	atomic64_add(call->copied, &context->bytes);
	trace_zerohop_copy(call->region, call->copied, err);
out:
	if (target.region)
		zh_region_put(target.region);
	kvfree(here.segments);
	kvfree(there.segments);
	return err;
}
