// SPDX-License-Identifier: GPL-2.0
/* The device: its files and calls. */
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

static int open_file(struct inode *inode, struct file *file)
{
	struct zh_file *own = kzalloc(sizeof(*own), GFP_KERNEL_ACCOUNT);

	if (!own)
		return -ENOMEM;
	mutex_init(&own->join);
	spin_lock_init(&own->lock);
	own->regions = RB_ROOT_CACHED;
	file->private_data = own;
	return 0;
}

static int close_file(struct inode *inode, struct file *file)
{
	struct zh_file *own = file->private_data;

	zh_leave(own);
	kfree_rcu(own, rcu);
	return 0;
}

static int join(struct zh_file *file, struct zerohop_join *call)
{
	int err;

	if (!call->abi || call->reserved)
		return -EINVAL;
	err = zh_join(file, call->secret);
	call->abi = ZEROHOP_ABI;
	call->member = err ? 0 : file->member;
	return err;
}

static int statistics(struct zh_context *context, struct zerohop_statistics *call)
{
	call->members = READ_ONCE(context->members);
	call->regions = atomic_long_read(&context->count);
	call->pages = atomic_long_read(&context->pages);
	call->registered = atomic64_read(&context->registered);
	call->pin_ns = atomic64_read(&context->pin_ns);
	call->evicted = atomic64_read(&context->evicted);
	call->revoked = atomic64_read(&context->revoked);
	call->copies = atomic64_read(&context->copies);
	call->bytes = atomic64_read(&context->bytes);
	return 0;
}

union call {
	u32 size;
	struct zerohop_join join;
	struct zerohop_register reg;
	struct zerohop_unregister unregister;
	struct zerohop_copy copy;
	struct zerohop_statistics statistics;
};

/* By number, from that of ZEROHOP_IOC_JOIN on: bytes of the structure here, the fewest that a caller may have, and how
 * many are given back. */
static const struct {
	size_t ours, least, back;
} calls[] = {
	{ sizeof(struct zerohop_join), 48, sizeof(struct zerohop_join) },
	{ sizeof(struct zerohop_register), 32, sizeof(struct zerohop_register) },
	{ sizeof(struct zerohop_unregister), 16, 0 },
	{ sizeof(struct zerohop_copy), 64, sizeof(struct zerohop_copy) },
	{ sizeof(struct zerohop_statistics), 8, sizeof(struct zerohop_statistics) },
};

static int do_call(struct zh_file *file, unsigned int number, union call *call)
{
	struct zh_context *context = smp_load_acquire(&file->context); /* pairs with zh_join() */
	int err;

	if (number == 0)
		return join(file, &call->join);
	if (!context)
		return -ENOTCONN;
	err = zh_allowed(context);
	if (err)
		return err;
	switch (number) {
	case 1:
		return call->reg.region ? -EINVAL : zh_register(file, &call->reg);
	case 2:
		return call->unregister.reserved ? -EINVAL : zh_unregister(file, call->unregister.region);
	case 3:
		return zh_copy(context, &call->copy);
	default:
		return statistics(context, &call->statistics);
	}
}

static long call_file(struct file *file, unsigned int cmd, unsigned long argument)
{
	unsigned int number = _IOC_NR(cmd) - _IOC_NR(ZEROHOP_IOC_JOIN);
	void __user *user = (void __user *)argument;
	const size_t theirs = _IOC_SIZE(cmd);
	union call call = {};
	int err;

	if (_IOC_TYPE(cmd) != _IOC_TYPE(ZEROHOP_IOC_JOIN) || number >= ARRAY_SIZE(calls))
		return -ENOTTY;
	number = array_index_nospec(number, ARRAY_SIZE(calls));
	if (theirs < calls[number].least)
		return -EINVAL;
	err = copy_struct_from_user(&call, calls[number].ours, user, theirs);
	if (!err && call.size != theirs)
		err = -EINVAL;
	if (!err) {
		err = do_call(file->private_data, number, &call);
		if (copy_to_user(user, &call, min(calls[number].back, theirs)) && !err) {
			err = -EFAULT;
			if (number == 1 && !(call.reg.flags & ZEROHOP_REUSE)) /* nobody knows its number */
				zh_unregister(file->private_data, call.reg.region);
		}
	}
	memzero_explicit(&call, sizeof(call));
	return err;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = open_file,
	.release = close_file,
	.unlocked_ioctl = call_file,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "zerohop",
	.fops = &operations,
	.mode = 0666,
};

static int __init load(void)
{
	int err = zh_region_init();

	zh_context_init();
	if (err)
		return err;
	err = misc_register(&device);
	if (err)
		zh_region_exit();
	return err;
}

static void __exit unload(void)
{
	misc_deregister(&device);
	zh_region_exit();
}

module_init(load);
module_exit(unload);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The zerohop developers");
MODULE_DESCRIPTION("Single copy between processes of one user");
MODULE_VERSION("0.1.0");
