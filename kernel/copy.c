// SPDX-License-Identifier: GPL-2.0
/* Copies between the caller's memory and a region. */
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
	c->segments = vmemdup_user(u64_to_user_ptr(list), array_size(count, sizeof(*c->segments)));
	if (IS_ERR(c->segments)) {
		int err = PTR_ERR(c->segments);

		c->segments = NULL;
		return err;
	}
	c->count = count;
	return 0;
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

static int move(struct zh_region *region, struct cursor *here, struct cursor *there, bool to_region, u64 *copied)
{
	u64 first = region->start & ~PAGE_MASK, since = 0;

	for (;;) {
		u64 bytes = min(left_here(here), left_here(there)), at, done;

		if (!bytes)
			return 0;
		at = first + there->segments[there->at].at + there->done;
		bytes = min_t(u64, bytes, PAGE_SIZE - (at & ~PAGE_MASK));
		done = copy_in_page(region->pages[at >> PAGE_SHIFT], at & ~PAGE_MASK,
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
		if (READ_ONCE(region->revoked))
			return -ENOENT;
		if (signal_pending(current))
			return 0;
		cond_resched();
	}
}

int zh_copy(struct zh_context *context, struct zerohop_copy *call)
{
	const bool to_region = call->flags & ZEROHOP_TO_REGION, times = call->flags & ZEROHOP_TIMES;
	u64 begun = times ? ktime_get_ns() : 0, found = 0;
	struct cursor here = {}, there = {};
	struct zh_region *region = NULL;
	int err;

	call->copied = call->lookup_ns = call->copy_ns = 0;
	if (call->flags & ~(ZEROHOP_TO_REGION | ZEROHOP_TIMES))
		return -EINVAL;
	err = fetch(&here, call->here, call->here_count);
	if (!err)
		err = fetch(&there, call->there, call->there_count);
	if (err)
		goto out;
	region = zh_region_get(context, call->region);
	err = -ENOENT;
	if (!region)
		goto out;
	err = -EACCES;
	if (!(region->flags & (to_region ? ZEROHOP_WRITE : ZEROHOP_READ)))
		goto out;
	err = within(&there, region->bytes);
	if (err)
		goto out;
	if (times)
		found = ktime_get_ns();
	err = signal_pending(current) ? -EINTR : move(region, &here, &there, to_region, &call->copied);
	if (times) {
		call->lookup_ns = found - begun;
		call->copy_ns = ktime_get_ns() - found;
	}
	atomic64_inc(&context->copies);
	atomic64_add(call->copied, &context->bytes);
	trace_zerohop_copy(call->region, call->copied, err);
out:
	if (region)
		zh_region_put(region);
	kvfree(here.segments);
	kvfree(there.segments);
	return err;
}
