// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_info.h"

#include <criterion/criterion.h>
#include <string.h>

#include "cuda/functions.h"

TestSuite(nccl_info, .timeout = 120);

/* A second copy of the struct in NCCL's src/include/info.h. */
struct info {
	int coll;
	uint64_t name;
	uint64_t send, receive;
	uint64_t count;
	int type, op, root;
	uint64_t comm, stream;
	int chunk_steps, slice_steps;
};

_Static_assert(sizeof(struct info) == 80, "as NCCL has it");

/* Addresses of names in a library that ends behind them. */
enum { ALL_REDUCE = 1, ALL_GATHER, BROADCAST, SEND };

static bool read_name(void *arg, uint64_t va, char name[NCCL_INFO_NAME_BYTES])
{
	static const char *const names[] = { NULL, "AllReduce", "AllGather", "Broadcast", "Send" };

	++*(size_t *)arg;
	if (!va || va >= sizeof(names) / sizeof(names[0]))
		return false;
	memcpy(name, names[va], strlen(names[va]));
	return true;
}

static const struct info good = { .coll = 4,
				  .name = ALL_REDUCE,
				  .count = 1000,
				  .type = 7,
				  .op = 2,
				  .root = 0,
				  .comm = 0x7f0000001000,
				  .stream = 0x51,
				  .chunk_steps = 4,
				  .slice_steps = 2 };

static size_t find(const void *frame, size_t len, struct nccl_info found[NCCL_INFO_MAX])
{
	size_t nr_read = 0, nr = nccl_info_find(frame, len, read_name, &nr_read, found);

	cr_expect_leq(nr_read, len / 8);
	return nr;
}

/* How many one structure is taken for. */
static size_t count(struct info info)
{
	struct nccl_info found[NCCL_INFO_MAX];

	return find(&info, sizeof(info), found);
}

/* A frame in which there may be one at each place does not have a name read for each. */
Test(nccl_info, everywhere)
{
	struct nccl_info found[NCCL_INFO_MAX];
	uint64_t frame[1024];
	size_t nr_read = 0, i;

	for (i = 0; i < 1024; i++)
		frame[i] = 8;
	cr_expect_gt(
		nccl_info_find((const uint8_t *)frame, sizeof(frame), read_name, &nr_read, found),
		NCCL_INFO_MAX);
	cr_expect(nr_read > 0 && nr_read <= 128, "%zu names read", nr_read);
}

Test(nccl_info, members)
{
	struct nccl_info found[NCCL_INFO_MAX];
	struct info frame[3];

	memset(frame, 0xff, sizeof(frame));
	memcpy((char *)frame + 72, &good, sizeof(good));
	cr_assert_eq(find(frame, sizeof(frame), found), 1);
	cr_expect_str_eq(found[0].name, "AllReduce");
	cr_expect(found[0].type == 7 && found[0].op == 2 && found[0].root == 0);
	cr_expect(found[0].count == 1000 && found[0].bytes == 4000);
	cr_expect(found[0].comm == 0x7f0000001000 && found[0].stream == 0x51);
	/* All of it has to be there, at a multiple of 8. */
	cr_expect_eq(find(frame, 72 + 79, found), 0);
	cr_expect_eq(find(frame, 72 + 80, found), 1);
	cr_expect_eq(find((char *)frame + 4, sizeof(frame) - 4, found), 0);
	cr_expect_eq(find(frame, 0, found), 0);
}

/* Each member that is not possible. */
Test(nccl_info, refused)
{
	struct info info;

	cr_assert_eq(count(good), 1);
#define REFUSED(member, value) (info = good, info.member = value, count(info) == 0)
	cr_expect(REFUSED(coll, 32));
	cr_expect(REFUSED(coll, -1));
	cr_expect(REFUSED(name, 0));
	cr_expect(REFUSED(name, 0x7f123456));
	cr_expect(REFUSED(count, (1ULL << 48) + 1));
	cr_expect(REFUSED(count, UINT64_MAX));
	cr_expect(REFUSED(type, 12));
	cr_expect(REFUSED(type, -1));
	cr_expect(REFUSED(op, -1));
	cr_expect(REFUSED(root, -1));
	cr_expect(REFUSED(root, 65536));
	cr_expect(REFUSED(comm, 0));
	cr_expect(REFUSED(comm, 0x7f0000001001));
	cr_expect(REFUSED(chunk_steps, 65));
	cr_expect(REFUSED(slice_steps, -1));
#undef REFUSED
	info = good;
	info.stream = 0; /* the default one */
	info.count = 0;
	info.op = 0x12345; /* made by the program */
	cr_expect_eq(count(info), 1);
}

Test(nccl_info, several)
{
	struct info frame[6] = { good, good, good, good, good, good };
	struct nccl_info found[NCCL_INFO_MAX];
	size_t i;

	cr_expect_eq(find(frame, sizeof(frame), found), 1); /* it says it six times */
	frame[3].count++;
	cr_assert_eq(find(frame, sizeof(frame), found), 2);
	cr_expect(found[0].count == 1000 && found[1].count == 1001);
	for (i = 0; i < 6; i++)
		frame[i].count = i;
	cr_expect_eq(find(frame, sizeof(frame), found), NCCL_INFO_MAX + 1);
}

/* Up to 2.21 NCCL writes bytes over the type and the count of an operation that only copies. */
Test(nccl_info, changed)
{
	struct nccl_info found[NCCL_INFO_MAX];
	struct info info = good;

	info.name = ALL_GATHER;
	info.type = 0;
	cr_assert_eq(find(&info, sizeof(info), found), 1);
	cr_expect(found[0].type == NCCL_INFO_TYPE_UNKNOWN && !found[0].count &&
		  found[0].bytes == 1000);
	info.name = BROADCAST;
	cr_assert_eq(find(&info, sizeof(info), found), 1);
	cr_expect_eq(found[0].type, NCCL_INFO_TYPE_UNKNOWN);
	info.type = 1; /* no program uses uint8 here */
	cr_assert_eq(find(&info, sizeof(info), found), 1);
	cr_expect(found[0].type == 1 && found[0].count == 1000);
	info.name = SEND;
	info.type = 0;
	cr_assert_eq(find(&info, sizeof(info), found), 1);
	cr_expect(found[0].type == 0 && found[0].count == 1000);
}

Test(nccl_info, functions)
{
	static const struct {
		const char *function;
		const char *name; /* of its structure, NULL: has none */
		struct nccl_info_has has;
	} cases[] = {
		{ "ncclAllReduce", "AllReduce", { .op = true } },
		{ "ncclAllReduceConfig", "AllReduce", { .op = true } },
		{ "ncclReduceScatter", "ReduceScatter", { .op = true } },
		{ "ncclAllGather", "AllGather", { .op = false } },
		{ "ncclBroadcast", "Broadcast", { .root = true } },
		{ "ncclBcast", "Broadcast", { .root = true } },
		{ "ncclReduce", "Reduce", { .op = true, .root = true } },
		{ "ncclSend", "Send", { .peer = true } },
		{ "ncclRecv", "Recv", { .peer = true } },
		{ "ncclGroupEnd", NULL, { .op = false } },
		{ "cuLaunchKernel", NULL, { .op = false } },
		{ "ncclNoSuch", NULL, { .op = false } },
		{ "", NULL, { .op = false } },
	};
	struct nccl_info info = { .type = 7 };
	struct nccl_info_has has;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(info.name, 0, sizeof(info.name));
		if (cases[i].name)
			memcpy(info.name, cases[i].name, strlen(cases[i].name));
		cr_expect_eq(nccl_info_is_of(&info, cases[i].function), cases[i].name != NULL, "%s",
			     cases[i].function);
		info.name[0] = 'X';
		cr_expect_not(nccl_info_is_of(&info, cases[i].function));
		has = nccl_info_has(cases[i].function);
		cr_expect(has.op == cases[i].has.op && has.root == cases[i].has.root &&
				  has.peer == cases[i].has.peer,
			  "%s", cases[i].function);
	}
}

Test(nccl_info, type_bytes)
{
	static const uint32_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0, 0 };
	size_t i;

	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		cr_expect_eq(gpu_nccl_type_bytes((uint32_t)i), bytes[i]);
	cr_expect_eq(gpu_nccl_type_bytes(UINT32_MAX), 0);
}
