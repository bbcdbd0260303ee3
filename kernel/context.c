// SPDX-License-Identifier: GPL-2.0
/* Contexts: who reaches whose regions. */
#include <crypto/algapi.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/siphash.h>
#include <linux/slab.h>

#include "internal.h"

static bool any_user;
module_param(any_user, bool, 0444);
MODULE_PARM_DESC(any_user, "who knows a context's secret may join it whoever he is (no)");

static unsigned int pool_contexts = 1024;
module_param(pool_contexts, uint, 0644);
MODULE_PARM_DESC(pool_contexts, "contexts that one user may have (1024)");

static DEFINE_MUTEX(joining);
static DEFINE_HASHTABLE(contexts, 10);
static siphash_key_t hash_key; /* so that nobody can choose secrets of one bucket */

void zh_context_init(void)
{
	get_random_bytes(&hash_key, sizeof(hash_key));
}

/* 0 where the calling process is of the context's user, as each call asks anew: descriptors can be passed on. */
int zh_allowed(const struct zh_context *context)
{
	return any_user || uid_eq(current_euid(), context->user->uid) ? 0 : -EPERM;
}

static struct zh_context *new_context(struct zh_user *user, const u8 *secret)
{
	struct zh_context *context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);

	if (!context)
		return NULL;
	kref_init(&context->refs);
	kref_get(&user->refs);
	context->user = user;
	memcpy(context->secret, secret, ZEROHOP_SECRET_BYTES);
	xa_init_flags(&context->files, XA_FLAGS_ACCOUNT);
	xa_init_flags(&context->regions, XA_FLAGS_ACCOUNT);
	return context;
}

static void free_context(struct kref *refs)
{
	struct zh_context *context = container_of(refs, struct zh_context, refs);

	xa_destroy(&context->files);
	xa_destroy(&context->regions);
	zh_user_put(context->user);
	kfree_sensitive(context);
}

void zh_context_put(struct zh_context *context)
{
	kref_put(&context->refs, free_context);
}

/* The context of the secret, found or made, held for the caller. */
static struct zh_context *context_of(struct zh_user *user, const u8 *secret, u64 hash)
{
	struct zh_context *context;

	lockdep_assert_held(&joining);
	hash_for_each_possible(contexts, context, all, hash) {
		if (crypto_memneq(context->secret, secret, ZEROHOP_SECRET_BYTES))
			continue;
		if (zh_allowed(context))
			return ERR_PTR(-EPERM);
		kref_get(&context->refs);
		return context;
	}
	if (user->contexts >= READ_ONCE(pool_contexts))
		return ERR_PTR(-EDQUOT);
	context = new_context(user, secret);
	return context ? context : ERR_PTR(-ENOMEM);
}

static int join(struct zh_file *file, struct zh_user *user, const u8 *secret)
{
	u64 hash = siphash(secret, ZEROHOP_SECRET_BYTES, &hash_key);
	struct zh_context *context;
	int err;

	lockdep_assert_held(&joining);
	context = context_of(user, secret, hash);
	if (IS_ERR(context))
		return PTR_ERR(context);
	err = context->last_member == U32_MAX ? -EDQUOT : 0;
	if (!err)
		err = xa_insert(&context->files, context->last_member + 1, file, GFP_KERNEL_ACCOUNT);
	if (err) {
		zh_context_put(context);
		return err;
	}
	WRITE_ONCE(context->members, context->members + 1);
	if (context->members == 1) {
		hash_add(contexts, &context->all, hash);
		context->user->contexts++;
	}
	file->member = ++context->last_member;
	file->user = user;
	smp_store_release(&file->context, context); /* pairs with do_call() in main.c */
	return 0;
}

static int join_watched(struct zh_file *file, const u8 *secret)
{
	struct zh_user *user = zh_user_get(current_euid());
	int err;

	if (!user)
		return -ENOMEM;
	err = mutex_lock_killable(&joining);
	if (!err) {
		err = join(file, user, secret);
		mutex_unlock(&joining);
	}
	if (err)
		zh_user_put(user);
	return err;
}

int zh_join(struct zh_file *file, const u8 *secret)
{
	int err;

	if (!memchr_inv(secret, 0, ZEROHOP_SECRET_BYTES))
		return -EINVAL;
	err = mutex_lock_killable(&file->join);
	if (err)
		return err;
	err = file->context ? -EISCONN : zh_watch(file);
	if (!err) {
		mmgrab(current->mm);
		file->mm = current->mm;
		err = join_watched(file, secret);
		if (err) {
			mmu_notifier_unregister(&file->notifier, file->mm);
			mmdrop(file->mm);
		}
	}
	mutex_unlock(&file->join);
	return err;
}

/* The file is closed: nobody else uses it. The secret of a context without members is free again. */
void zh_leave(struct zh_file *file)
{
	struct zh_context *context = file->context;

	if (!context)
		return;
	xa_erase(&context->files, file->member);
	zh_unregister_all(file);
	mmu_notifier_unregister(&file->notifier, file->mm);
	mutex_lock(&joining);
	WRITE_ONCE(context->members, context->members - 1);
	if (context->members == 0) {
		hash_del(&context->all);
		context->user->contexts--;
	}
	mutex_unlock(&joining);
	mmdrop(file->mm);
	zh_user_put(file->user);
	zh_context_put(context);
}
