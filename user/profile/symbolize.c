// SPDX-License-Identifier: Apache-2.0
#include "profile/symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "base/vec.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "profile/aggregate.h"
#include "profile/assemble.h"
#include "profile/frame_set.h"
#include "profile/image_symbols.h"
#include "profile/jit_names.h"
#include "profile/profile.h"
#include "profile/short_file.h"
#include "profile/stats.h"
#include "python/codes.h"
#include "python/merge.h"
#include "symbol/demangle.h"
#include "symbol/kallsyms.h"
#include "symbol/perfmap.h"
#include "bpfprof.h"

#define ANON_NAME_BYTES UINT64_C(4096)
#define MAX_STRING_BYTES (32U << 20)
#define CUT_RAW_BYTES 255 /* a mangled name that is cut is not demangled */
#define NAMES_PER_FRAME 3 /* function, its name in the file or the source file, and its short one */
#define MAX_ASKED 16 /* processes that are asked about the folder of Python code */

enum problem {
	CODE_PENDING,
	KALLSYMS_UNREADABLE,
	SYMBOLS_MALFORMED,
	SYMBOLS_NO_TIME,
	SYMBOLS_TOO_MANY,
	SYMBOLS_UNREADABLE,
	NAMES_CUT,
	NR_PROBLEMS,
};

/* One counter for each enum problem. */
const struct counter symbolize_counters[] = {
	[CODE_PENDING] = { COUNTER_FILES, "code_pending", 0,
			   .help = "Python functions whose names had not arrived" },
	[KALLSYMS_UNREADABLE] = { COUNTER_FILES, "kallsyms_unreadable", 0,
				  .help = "times that the kernel's symbols could not be read: its "
					  "functions have no names" },
	[SYMBOLS_MALFORMED] = { COUNTER_FILES, "symbols_malformed", 0,
				.help = "files whose section headers, symbol table, or function "
					"table of Go contradict themselves, or are cut off" },
	[SYMBOLS_NO_TIME] = { COUNTER_FILES, "symbols_no_time", 0,
			      .help = "files that were left without names, as there was no time "
				      "for them any more" },
	[SYMBOLS_TOO_MANY] = { COUNTER_FILES, "symbols_too_many", 0,
			       .help = "files with more sections, symbols or compressed symbols "
				       "than are read, or with symbols that take too much work: "
				       "at least exported functions have names" },
	[SYMBOLS_UNREADABLE] = { COUNTER_FILES, "symbols_unreadable", 0,
				 .help = "files that could not be read to their end" },
	[NAMES_CUT] = { COUNTER_FILES, "names_cut", 0,
			.help = "files, or groups of other code, with names that are cut shorter, "
				"or left out: no "
				"room" },
	[NR_PROBLEMS] = { 0 },
};

struct symbolizer {
	struct profile *profile;
	const struct aggregate_process *processes;
	size_t nr_processes;
	const struct strtab *labels; /* names of LABEL frames; NULL: there are none */
	struct images *images;
	const struct symbolize_options *options;
	struct stats_reasons *files;
	const uint64_t *frames; /* distinct, ascending: locations[i] is frames[i] */
	size_t nr;
	uint32_t *owners; /* by Python frame: index + 1 of a process that runs it, or 0; or NULL */
	struct jit_names jit;
	size_t name_bytes; /* see symbolize_options */
	uint64_t nr_raw_cut; /* names of files that did not fit into the tables of these */
	int kernel_names_hidden;
};

static void problem_count(struct symbolizer *s, enum problem problem)
{
	stats_add(s->files, symbolize_counters[problem].name, 1);
}

static uint32_t frame_image(uint64_t frame)
{
	return (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
}

static uint32_t add_printf(struct strtab *strings, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static uint32_t add_printf(struct strtab *strings, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return strtab_add(strings, text);
}

/* Index + 1 of the new mapping, 0 if out of memory. */
static uint32_t mapping_add(struct profile *profile, const struct profile_mapping *mapping)
{
	if (!vec_fit(profile->mappings, profile->nr_mappings + 1))
		return 0;
	profile->mappings[profile->nr_mappings++] = *mapping;
	return (uint32_t)profile->nr_mappings;
}

/* Kernel frames: one pass over kallsyms finds all addresses. */

static void kernel_location(struct symbolizer *s, size_t i, const struct kallsyms_query *query,
			    uint32_t mapping)
{
	struct profile_location *loc = &s->profile->locations[i];

	loc->kind = LOCATION_KERNEL;
	loc->address = query->va;
	loc->mapping = mapping;
	loc->has_symbol = query->name != 0;
	if (s->options->ranges && query->name) {
		loc->same_start = query->start;
		loc->same_end = query->end;
	}
	loc->name = query->name ? query->name : strtab_add(s->profile->strings, "[kernel]");
	loc->system_name = loc->name;
}

static int kernel_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	__cleanup(free_mem) struct kallsyms_query *queries = calloc(nr, sizeof(*queries));
	struct profile_mapping mapping = { .has_functions = true };
	uint32_t mapping_id;
	size_t i;
	int err;

	if (!queries)
		return -ENOMEM;
	for (i = 0; i < nr; i++) /* addresses are sign-extended from bit 59 */
		queries[i].va = (uint64_t)((int64_t)(s->frames[first + i] << 4) >> 4);
	err = kallsyms_resolve(s->options->kallsyms, s->profile->strings, queries, nr);
	if (err == -EACCES)
		s->kernel_names_hidden = 1;
	else if (err)
		problem_count(s, KALLSYMS_UNREADABLE);
	mapping.path = strtab_add(s->profile->strings, "[kernel.kallsyms]");
	mapping.start = queries[0].va & ~0xfffULL;
	mapping.limit = (queries[nr - 1].va | 0xfff) + 1;
	if (!mapping.limit) /* the last page of the address space */
		mapping.limit = UINT64_MAX;
	mapping_id = mapping_add(s->profile, &mapping);
	for (i = 0; i < nr; i++)
		kernel_location(s, first + i, &queries[i], mapping_id);
	return 0;
}

/* Native frames: image by image. */

static struct profile_mapping image_mapping(struct symbolizer *s, const struct image *image)
{
	struct profile_mapping mapping = { 0 };
	const struct elf_segment *segments;
	uint8_t id[ELF_BUILD_ID_MAX];
	char hex[2 * ELF_BUILD_ID_MAX + 1] = "";
	size_t nr, i;
	int len, k;

	if (image->path[0])
		mapping.path = strtab_add(s->profile->strings, image->path);
	else
		mapping.path = add_printf(s->profile->strings, "[inode %" PRIu64 "]", image->ino);
	mapping.limit = BPFPROF_OFF_MASK;
	if (image->state != IMAGE_OPEN)
		return mapping;
	len = elf_image_build_id(image->elf, id);
	for (k = 0; k < len; k++)
		snprintf(hex + 2 * k, 3, "%02x", id[k]);
	mapping.build_id = strtab_add(s->profile->strings, hex);
	segments = elf_image_segments(image->elf, &nr);
	for (i = 0; i < nr; i++) {
		if (segments[i].type != 1 || !(segments[i].flags & 1)) /* PT_LOAD, PF_X */
			continue;
		mapping.start = segments[i].va & ~0xfffULL;
		mapping.limit = (segments[i].va + segments[i].mem_bytes + 0xfff) & ~0xfffULL;
		mapping.off = segments[i].off & ~0xfffULL;
		break;
	}
	return mapping;
}

/* names: of this file alone, whole. Long ones come into the profile cut. */
static void native_location(struct symbolizer *s, size_t i, const struct elf_symbol *symbol,
			    const struct strtab *names, const char *base, uint32_t mapping)
{
	struct profile_location *loc = &s->profile->locations[i];
	struct strtab *strings = s->profile->strings;
	const char *raw = strtab_get(names, symbol->name);
	char name[DEMANGLE_MAX_OUTPUT];

	loc->kind = LOCATION_NATIVE;
	loc->address = symbol->rva;
	loc->mapping = mapping;
	loc->has_symbol = symbol->name != 0;
	loc->has_start = !symbol->name && symbol->function;
	loc->same_start = symbol->same_start;
	loc->same_end = symbol->same_end;
	loc->file = strtab_add(strings, strtab_get(names, symbol->file));
	loc->line = symbol->line;
	loc->start_line = symbol->start_line;
	if (symbol->name) {
		demangle(raw, name);
		loc->name = strtab_add(strings, name);
		name_cut_short(raw, strlen(raw), NAME_CUT_MAX - 1, name);
		loc->system_name = strtab_add(strings, name);
	} else { /* one name for the whole function, if its begin is known */
		loc->name = add_printf(strings, "%s+0x%" PRIx64, base,
				       symbol->function ? symbol->function : symbol->rva);
		loc->system_name = loc->name;
	}
}

const char *symbolize_problem(const struct stats_reasons *files)
{
	size_t i;

	for (i = 0; i < files->nr; i++)
		if (!strncmp(files->reasons[i].name, "symbols_", 8) && files->reasons[i].count)
			return files->reasons[i].name;
	return NULL;
}

/* The counter for an error with the symbols of a file. */
static enum problem symbols_problem(int err)
{
	return err == -EBADMSG ? SYMBOLS_MALFORMED
	       : err == -E2BIG ? SYMBOLS_TOO_MANY
			       : SYMBOLS_UNREADABLE;
}

/* Symbols without a name keep their address. */
static void symbols_resolve(struct symbolizer *s, struct image *image, struct strtab *names,
			    struct elf_symbol *symbols, size_t nr)
{
	int err = image_symbols_resolve(s->images, image, names, symbols, nr);

	if (err == -ETIMEDOUT)
		images_fail(s->images, image, err, s->options->now_ns);
	/* Memory has no section headers; another counter says so. */
	else if (err && !elf_image_is_loaded(image->elf))
		problem_count(s, symbols_problem(err));
}

static int image_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	struct image *image = images_get(s->images, frame_image(s->frames[first]));
	__cleanup(free_mem) struct elf_symbol *symbols = calloc(nr, sizeof(*symbols));
	__cleanup(strtab_free) struct strtab *names = NULL;
	struct profile_mapping mapping = { .limit = BPFPROF_OFF_MASK };
	uint32_t mapping_id;
	size_t i;
	int err;

	if (!symbols || strtab_new(&names, 2 * s->name_bytes))
		return -ENOMEM;
	strtab_cut_after(names, s->name_bytes, CUT_RAW_BYTES);
	if (s->options->deadline_ns && time_monotonic_ns() >= s->options->deadline_ns) {
		err = -ETIMEDOUT;
		problem_count(s, SYMBOLS_NO_TIME);
	} else {
		err = image ? images_open(s->images, image, s->options->now_ns) : -ENOENT;
	}
	for (i = 0; i < nr; i++) {
		symbols[i].rva = s->frames[first + i] & BPFPROF_OFF_MASK;
		symbols[i].same_end = s->options->ranges ? UINT64_MAX : 0;
		if (!err)
			elf_image_off_to_rva(image->elf, symbols[i].rva, &symbols[i].rva);
	}
	if (!err)
		symbols_resolve(s, image, names, symbols, nr);
	if (image)
		mapping = image_mapping(s, image);
	else /* the image was forgotten meanwhile */
		mapping.path = strtab_add(s->profile->strings, "[unknown file]");
	mapping.has_functions = true; /* pprof need not search for names */
	mapping_id = mapping_add(s->profile, &mapping);
	for (i = 0; i < nr; i++)
		native_location(s, first + i, &symbols[i], names,
				text_base_name(strtab_get(s->profile->strings, mapping.path)),
				mapping_id);
	s->nr_raw_cut += strtab_nr_cut(names) + strtab_nr_lost(names);
	return 0;
}

/* The pid in bpfprof's namespace if it is known, else that in the root namespace. */
static uint32_t process_pid(const struct aggregate_process *process)
{
	return process->agent_pid ? process->agent_pid : process->pid;
}

/* Code without any name is named by its page: a name per instruction would be noise. */
static int va_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	__cleanup(free_mem) struct perfmap_query *queries = calloc(nr, sizeof(*queries));
	uint64_t process = (s->frames[first] & BPFPROF_FRAME_MASK) >> AGGREGATE_VA_BITS;
	struct profile_location *loc;
	size_t i;

	if (!queries)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		queries[i].va = s->frames[first + i] & AGGREGATE_VA_MASK;
	if (process && process <= s->nr_processes &&
	    jit_names_find(&s->jit, process_pid(&s->processes[process - 1]),
			   s->processes[process - 1].start_ns, queries, nr))
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		loc = &s->profile->locations[first + i];
		loc->kind = LOCATION_NATIVE;
		loc->address = queries[i].va;
		loc->has_symbol = queries[i].name != 0;
		loc->name = queries[i].name ? queries[i].name
					    : add_printf(s->profile->strings, "[anon]+0x%" PRIx64,
							 queries[i].va & ~(ANON_NAME_BYTES - 1));
		loc->system_name = loc->name;
	}
	return 0;
}

/* Python frames. */

/* Finds a process that sees the folder of the file: one that runs the frame, or any other. */
static uint32_t python_pid(const struct symbolizer *s, size_t frame, const char *file)
{
	const char *slash = strrchr(file, '/');
	char folder[PATH_MAX];
	uint32_t pid;
	size_t i;

	if (s->owners && s->owners[frame])
		return process_pid(&s->processes[s->owners[frame] - 1]);
	if (!slash || slash - file >= (ptrdiff_t)sizeof(folder))
		return 0;
	memcpy(folder, file, (size_t)(slash - file));
	folder[slash - file] = '\0';
	for (i = 0; i < s->nr_processes && i < MAX_ASKED; i++) {
		pid = process_pid(&s->processes[i]);
		if (images_scan(s->images, pid, folder, "__init__.py") >= 0)
			return pid;
	}
	return 0;
}

static int python_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	struct strtab *strings = s->profile->strings;
	const struct profile_location *last = NULL;
	struct short_file_view view = { .images = s->options->runner ? s->images : NULL };
	struct profile_location *loc;
	struct code_info info;
	uint32_t pid;
	size_t i;

	for (i = first; i < first + nr; i++) {
		loc = &s->profile->locations[i];
		loc->kind = LOCATION_PYTHON;
		loc->has_symbol = true;
		if (!s->options->codes || codes_describe(s->options->codes, s->frames[i], &info)) {
			loc->name = strtab_add(strings, "[python]");
			loc->system_name = loc->name;
			problem_count(s, CODE_PENDING);
			continue;
		}
		loc->name = strtab_add(strings, info.name);
		loc->system_name = loc->name;
		loc->file = strtab_add(strings, info.file);
		pid = view.images ? python_pid(s, i, info.file) : 0;
		if (last && last->file == loc->file && pid == view.pid) {
			loc->short_file = last->short_file;
		} else {
			view.pid = pid;
			loc->short_file = strtab_add(strings, short_file(&view, info.file));
		}
		last = loc;
		loc->line = info.line;
		loc->start_line = info.first_line;
		if (s->frames[i] & (BPFPROF_CODE_ID_RAW << BPFPROF_LASTI_BITS))
			problem_count(s, CODE_PENDING);
	}
	return 0;
}

static int marker_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	const char *name;
	size_t i;

	for (i = first; i < first + nr; i++) {
		name = s->frames[i] & PYTHON_FRAME_UNMERGED ? "[unmerged]" : "[truncated]";
		s->profile->locations[i].kind = LOCATION_MARKER;
		s->profile->locations[i].name = strtab_add(s->profile->strings, name);
		s->profile->locations[i].system_name = s->profile->locations[i].name;
	}
	return 0;
}

/* Names labels. Label 0: see aggregate_add_call(). */
static int label_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	struct profile_location *loc;
	uint32_t id;
	size_t i;

	for (i = first; i < first + nr; i++) {
		loc = &s->profile->locations[i];
		id = (uint32_t)s->frames[i];
		loc->kind = id ? LOCATION_CALL : LOCATION_MARKER;
		loc->has_symbol = id;
		loc->name = id ? assemble_label(s->profile, s->labels, id)
			       : strtab_add(s->profile->strings, "[no stack]");
		loc->system_name = loc->name;
	}
	return 0;
}

/* The group of a frame: frames of one kind, and of one image or process, are resolved together. */
static uint64_t frame_group(uint64_t frame)
{
	switch (aggregate_frame_kind(frame)) {
	case BPFPROF_FRAME_NATIVE:
		return frame >> BPFPROF_OFF_BITS;
	case BPFPROF_FRAME_NATIVE_VA:
		return frame >> AGGREGATE_VA_BITS;
	default:
		return frame >> BPFPROF_FRAME_SHIFT;
	}
}

static int group_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	switch (aggregate_frame_kind(s->frames[first])) {
	case BPFPROF_FRAME_KERNEL:
		return kernel_resolve(s, first, nr);
	case BPFPROF_FRAME_NATIVE:
		return image_resolve(s, first, nr);
	case BPFPROF_FRAME_NATIVE_VA:
		return va_resolve(s, first, nr);
	case BPFPROF_FRAME_PYTHON:
		return python_resolve(s, first, nr);
	case BPFPROF_FRAME_LABEL:
		return label_resolve(s, first, nr);
	default:
		return marker_resolve(s, first, nr);
	}
}

/* Mappings are numbered in this order; profile_lead() improves it if the program is known. */
enum { RANK_FILES, RANK_OTHERS, RANK_KERNEL, NR_RANKS };

static int frame_rank(uint64_t frame)
{
	if (aggregate_frame_kind(frame) == BPFPROF_FRAME_KERNEL)
		return RANK_KERNEL;
	if (aggregate_frame_kind(frame) == BPFPROF_FRAME_NATIVE &&
	    frame_image(frame) >= BPFPROF_IMAGE_FIRST_FILE)
		return RANK_FILES;
	return RANK_OTHERS;
}

size_t symbolize_group(const uint64_t *frames, size_t nr)
{
	size_t end;

	for (end = 1; end < nr; end++)
		if (aggregate_frame_kind(frames[end]) != aggregate_frame_kind(frames[0]) ||
		    frame_group(frames[end]) != frame_group(frames[0]))
			break;
	return end;
}

/*
 * One file, or one process, has a quarter of the room for long names, and all of them a half: the other half
 * is for a short name of each frame.
 */
static void names_share(struct symbolizer *s)
{
	size_t used = strtab_bytes(s->profile->strings), half = s->name_bytes / 2;
	size_t rest = used < half ? half - used : 0;
	size_t len = half / (NAMES_PER_FRAME * (s->nr + 1));

	strtab_cut_after(s->profile->strings, rest < half / 2 ? rest : half / 2,
			 len < NAME_CUT_SHORTEST ? NAME_CUT_SHORTEST : len);
}

static uint64_t names_cut(const struct symbolizer *s)
{
	const struct strtab *strings = s->profile->strings;

	return strtab_nr_cut(strings) + strtab_nr_lost(strings) + s->nr_raw_cut;
}

/* Resolves all frames of the rank, group by group. */
static int locations_resolve(struct symbolizer *s, int rank)
{
	uint64_t cut;
	size_t first, nr;
	int err = 0;

	for (first = 0; first < s->nr && !err; first += nr) {
		nr = symbolize_group(s->frames + first, s->nr - first);
		if (frame_rank(s->frames[first]) != rank)
			continue;
		names_share(s);
		cut = names_cut(s);
		err = group_resolve(s, first, nr);
		if (names_cut(s) > cut)
			problem_count(s, NAMES_CUT);
	}
	return err;
}

static int stacks_make(struct symbolizer *s, const struct aggregate_view *view)
{
	struct profile *p = s->profile;
	size_t i;

	if (profile_stacks_fit(p, view->nr_stacks))
		return -ENOMEM;
	for (i = 1; i < view->nr_stacks; i++)
		profile_stack_put(p, view->callers[i],
				  (uint32_t)frame_set_find(s->frames, s->nr, view->frames[i]));
	return 0;
}

/* Finds a process for each Python frame, since files are searched as a process sees them. */
static int owners_make(struct symbolizer *s, const struct aggregate_view *view)
{
	__cleanup(free_mem) uint32_t *runs = calloc(view->nr_stacks + 1, sizeof(*runs));
	uint32_t *owner;
	size_t i;

	s->owners = calloc(s->nr + 1, sizeof(*s->owners));
	if (!runs || !s->owners)
		return -ENOMEM;
	for (i = 0; i < view->nr_samples; i++)
		runs[view->samples[i].stack] = view->samples[i].process + 1;
	for (i = 0; i < view->nr_call_samples; i++)
		runs[view->call_samples[i].at.stack] = view->call_samples[i].at.process + 1;
	for (i = view->nr_stacks; i-- > 1;) {
		owner = &s->owners[s->profile->stack_locations[i]];
		if (aggregate_frame_kind(view->frames[i]) == BPFPROF_FRAME_PYTHON && !*owner)
			*owner = runs[i];
		if (runs[i]) /* callers have smaller numbers */
			runs[view->callers[i]] = runs[i];
	}
	return 0;
}

/* The mapping of a program. It is made if no frame is in it: all frames may be in libraries. */
static uint32_t program_find(struct symbolizer *s, uint32_t *of_image, uint32_t nr, uint32_t id)
{
	const struct image *image = id && id < nr ? images_get(s->images, id) : NULL;
	struct profile_mapping mapping;

	if (image && !of_image[id]) {
		mapping = image_mapping(s, image);
		mapping.has_functions = true;
		of_image[id] = mapping_add(s->profile, &mapping);
	}
	return image ? of_image[id] : 0;
}

static int programs_find(struct symbolizer *s, const struct aggregate_view *view)
{
	uint32_t nr = images_count(s->images);
	__cleanup(free_mem) uint32_t *of_image = calloc(nr + 1, sizeof(*of_image));
	struct profile *p = s->profile;
	size_t i;

	if (!of_image)
		return -ENOMEM;
	for (i = 0; i < p->nr_locations; i++)
		if (frame_rank(s->frames[i]) == RANK_FILES && frame_image(s->frames[i]) < nr)
			of_image[frame_image(s->frames[i])] = p->locations[i].mapping;
	for (i = 0; i < view->nr_processes; i++)
		p->processes[i].program = program_find(s, of_image, nr, view->processes[i].program);
	p->target_program = program_find(s, of_image, nr, s->options->target_program);
	return 0;
}

/* Makes the strings and the locations. The caller frees the profile, even after a failure. */
static int frames_locate(struct symbolizer *s)
{
	struct profile *profile = s->profile;
	int err = 0, rank;

	s->jit = (struct jit_names){ .images = s->images,
				     .strings = profile->strings,
				     .reasons = s->files,
				     .cut_map = s->options->cut_map };
	profile->locations = calloc(s->nr + 1, sizeof(*profile->locations));
	if (!profile->locations)
		return -ENOMEM;
	profile->nr_locations = s->nr;
	s->name_bytes = s->options->name_bytes ? s->options->name_bytes : MAX_STRING_BYTES;
	for (rank = 0; rank < NR_RANKS && !err; rank++)
		err = locations_resolve(s, rank);
	strtab_cut_after(profile->strings, SIZE_MAX,
			 SIZE_MAX); /* the names of processes and pods come now */
	return err;
}

int symbolize_frames(struct profile *ret, const uint64_t *frames, size_t nr,
		     const struct aggregate_process *processes, size_t nr_processes,
		     struct images *images, const struct symbolize_options *options,
		     struct stats_reasons *files, int *kernel_names_hidden)
{
	struct profile profile = { 0 };
	struct symbolizer s = { .profile = &profile,
				.processes = processes,
				.nr_processes = nr_processes,
				.images = images,
				.options = options,
				.files = files,
				.frames = frames,
				.nr = nr };
	int err = strtab_new(&profile.strings, MAX_STRING_BYTES);

	if (!err)
		err = frames_locate(&s);

	if (err) {
		profile_fini(&profile);
		return err;
	}
	*ret = profile;
	*kernel_names_hidden |= s.kernel_names_hidden;
	return 0;
}

int symbolize(struct profile *ret, const struct aggregate_view *view, struct images *images,
	      const struct symbolize_options *options, struct stats_reasons *files,
	      int *kernel_names_hidden)
{
	__cleanup(free_mem) uint64_t *frames = NULL;
	struct profile profile = { 0 };
	struct symbolizer s = { .profile = &profile,
				.processes = view->processes,
				.nr_processes = view->nr_processes,
				.labels = view->labels,
				.images = images,
				.options = options,
				.files = files };
	int err;

	err = frame_set_collect(view->frames + 1, view->nr_stacks - 1, &frames, &s.nr);
	s.frames = frames;
	if (!err)
		err = stacks_make(&s, view);
	if (!err && options->runner)
		err = owners_make(&s, view);
	if (!err)
		err = strtab_new(&profile.strings, MAX_STRING_BYTES);
	if (!err)
		err = assemble(&profile, view, options->calls);
	/* Now, as the names need memory, too. */
	if (!err && options->release)
		aggregate_free_samples(options->release);
	if (!err)
		err = frames_locate(&s);
	free(s.owners);
	if (!err)
		err = programs_find(&s, view);
	if (err) {
		profile_fini(&profile);
		return err;
	}
	*ret = profile;
	*kernel_names_hidden = s.kernel_names_hidden;
	return 0;
}
