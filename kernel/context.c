// SPDX-License-Identifier: GPL-2.0
/* Contexts: who reaches whose regions. */
#include <crypto/algapi.h>
#include <linux/cred.h>
#include <linux/slab.h>

#include "internal.h"

static DEFINE_MUTEX(contexts_lock);
static LIST_HEAD(contexts);

/* 0 where the calling process is of the context's user, as each call asks anew: descriptors can be passed on. */
int zh_allowed(const struct zh_context *context)
{
	return zh_any_user || uid_eq(current_euid(), context->user) ? 0 : -EPERM;
}

static struct zh_context *new_context(const u8 *secret)
{
	struct zh_context *context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);

	if (!context)
		return NULL;
	kref_init(&context->refs);
	context->user = current_euid();
	memcpy(context->secret, secret, ZEROHOP_SECRET_BYTES);
	mutex_init(&context->lock);
	xa_init_flags(&context->regions, XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&context->order);
	return context;
}

static struct zh_context *find_context(const u8 *secret)
{
	struct zh_context *context;

	list_for_each_entry(context, &contexts, all)
		if (!crypto_memneq(context->secret, secret, ZEROHOP_SECRET_BYTES))
			return context;
	return NULL;
}

int zh_join(struct zh_file *file, const u8 *secret)
{
	struct zh_context *context;
	int err = 0;

	if (!memchr_inv(secret, 0, ZEROHOP_SECRET_BYTES))
		return -EINVAL;
	mutex_lock(&contexts_lock);
	context = file->context ? NULL : find_context(secret);
	if (file->context) {
		err = -EISCONN;
	} else if (context) {
		err = zh_allowed(context);
		if (!err)
			kref_get(&context->refs);
	} else {
		context = new_context(secret);
		if (context)
			list_add(&context->all, &contexts);
		else
			err = -ENOMEM;
	}
	if (!err) {
		context->members++;
		smp_store_release(&file->context, context); /* pairs with do_call() in main.c */
	}
	mutex_unlock(&contexts_lock);
	return err;
}

/* The file is closed: nobody else uses it. The secret of a context without members is free again. */
void zh_leave(struct zh_file *file)
{
	struct zh_context *context = file->context;

	if (!context)
		return;
	mutex_lock(&contexts_lock);
	if (--context->members == 0)
		list_del(&context->all);
	mutex_unlock(&contexts_lock);
	zh_context_put(context);
}

unsigned int zh_members(struct zh_context *context)
{
	unsigned int members;

	mutex_lock(&contexts_lock);
	members = context->members;
	mutex_unlock(&contexts_lock);
	return members;
}

static void free_context(struct kref *refs)
{
	struct zh_context *context = container_of(refs, struct zh_context, refs);

	xa_destroy(&context->regions);
	mutex_destroy(&context->lock);
	kfree_sensitive(context);
}

void zh_context_put(struct zh_context *context)
{
	kref_put(&context->refs, free_context);
}
