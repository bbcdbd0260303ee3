// SPDX-License-Identifier: GPL-2.0
/*
 * Pinning, of memory whose owner notices nothing of it. For reading that is pages that the process has already: of
 * others in a private mapping (a file's, those it shares with a child, the page of zeros) pinning makes copies.
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "internal.h"

#define PIN_AT_ONCE 1024 /* pages, between two looks at signals */
#define LOOK_AT_ONCE 64

/* What was never live nobody has written. */
void zh_unpin(struct zh_region *region)
{
	const bool dirty = region->live && region->flags & ZEROHOP_WRITE;

	while (region->pinned) {
		unsigned long pages = min_t(unsigned long, region->pinned, PIN_AT_ONCE);

		region->pinned -= pages;
		unpin_user_pages_dirty_lock(region->pages + region->pinned, pages, dirty);
		cond_resched();
	}
}

/* Of a shared mapping of a file that is open for reading alone, VM_SHARED is not set. */
static bool is_private(const struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_MAYSHARE);
}

/*
 * Of private huge pages fork makes copies while they are pinned, and fails where no others are free. File systems that
 * are asked before a page of theirs is written to would not hear of it.
 */
static bool may_be_pinned(struct vm_area_struct *vma, bool writes)
{
	if (is_private(vma))
		return !is_vm_hugetlb_page(vma);
	return !writes || !vma->vm_ops || (!vma->vm_ops->page_mkwrite && !vma->vm_ops->pfn_mkwrite);
}

/* Looks at the mappings of the whole range, once nobody changes them; `any_private`: one of them is. */
static int look_at_mappings(const struct zh_region *region, bool *any_private)
{
	const unsigned long last = region->range.last;
	unsigned long at = region->range.start;
	int err = mmap_read_lock_killable(region->mm);

	if (err)
		return err;
	*any_private = false;
	while (!err && at <= last) {
		struct vm_area_struct *vma = find_vma(region->mm, at);

		if (!vma || vma->vm_start > at || !may_be_pinned(vma, region->flags & ZEROHOP_WRITE)) {
			err = -EFAULT;
		} else {
			*any_private = *any_private || is_private(vma);
			at = vma->vm_end;
		}
	}
	mmap_read_unlock(region->mm);
	return err;
}

/* Of a huge page that is mapped as one, of which no page is mapped by itself, the first one has the mark. */
static bool is_own(struct page *page)
{
	struct folio *folio = page_folio(page);

	return folio_test_anon(folio) &&
	       (PageAnonExclusive(page) || (atomic_read(&page->_mapcount) < 0 && PageAnonExclusive(&folio->page)));
}

/* Touches pages as any reader does: how many, from `start` on, or an error where one is not the process's own. */
static int look_at_pages(unsigned long start, unsigned long count)
{
	struct page *pages[LOOK_AT_ONCE];
	int i, got = get_user_pages_fast(start, min_t(unsigned long, count, LOOK_AT_ONCE), 0, pages);
	bool own = true;

	for (i = 0; i < got; i++) {
		own = own && is_own(pages[i]);
		put_page(pages[i]);
	}
	return own && got ? got : -EFAULT;
}

/* Whether the memory may be pinned; a change of the mapping since this began revokes the region. */
int zh_look(const struct zh_region *region)
{
	unsigned long at = region->range.start & PAGE_MASK, left = region->page_count;
	bool any_private;
	int err = look_at_mappings(region, &any_private);

	while (!err && left && any_private && !(region->flags & ZEROHOP_WRITE)) {
		int looked = look_at_pages(at, left);

		if (looked < 0)
			return looked;
		at += looked * PAGE_SIZE;
		left -= looked;
		if (fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	return err;
}

int zh_pin(struct zh_region *region)
{
	const unsigned int how = FOLL_LONGTERM | (region->flags & ZEROHOP_WRITE ? FOLL_WRITE : 0);

	while (region->pinned < region->page_count) {
		unsigned long left = region->page_count - region->pinned;
		int pinned = pin_user_pages_fast((region->range.start & PAGE_MASK) + region->pinned * PAGE_SIZE,
						 min_t(unsigned long, left, PIN_AT_ONCE), how,
						 region->pages + region->pinned);

		if (pinned <= 0)
			return pinned ? pinned : -EFAULT;
		region->pinned += pinned;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}
