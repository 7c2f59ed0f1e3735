// SPDX-License-Identifier: Apache-2.0
/* Reads frames of a pprof: mappings, functions and locations. */
#include "formats/pprof_reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "formats/pprof_fields.h"

static uint32_t base_name(struct strtab *strings, uint32_t path)
{
	const char *text = strtab_get(strings, path), *slash = strrchr(text, '/');

	return slash ? strtab_add(strings, slash + 1) : path;
}

static int mapping_add(struct pprof *p, struct wire_span span)
{
	struct profile_mapping mapping = { 0 };
	uint64_t id = 0, path = 0, build_id = 0;
	struct wire_field field;
	uint32_t index;
	int got, err;

	while ((got = wire_next(&span, &field)) > 0) {
		switch (field.number) {
		case MAPPING_ID:
			id = field.value;
			break;
		case MAPPING_START:
			mapping.start = field.value;
			break;
		case MAPPING_LIMIT:
			mapping.limit = field.value;
			break;
		case MAPPING_OFFSET:
			mapping.off = field.value;
			break;
		case MAPPING_FILENAME:
			path = field.value;
			break;
		case MAPPING_BUILD_ID:
			build_id = field.value;
			break;
		case MAPPING_HAS_FUNCTIONS:
			mapping.has_functions = field.value;
			break;
		default:
			break;
		}
	}
	if (got)
		return got;
	err = pprof_text(p, path, &mapping.path);
	if (!err)
		err = pprof_text(p, build_id, &mapping.build_id);
	if (!err && p->mappings.nr >= PPROF_MAX_MAPPINGS)
		err = pprof_too_many(p, "mappings", PPROF_MAX_MAPPINGS);
	if (!err)
		err = profile_builder_mapping(&p->read->builder, &mapping, &index);
	if (!err)
		err = vec_reserve(&p->read->builder.budget, &p->mappings, 1, sizeof(uint32_t));
	if (err)
		return err;
	if (!p->has_main)
		p->main_name = base_name(p->read->builder.strings, mapping.path);
	p->has_main = true;
	PPROF_AT(p->mappings, uint32_t, p->mappings.nr) = index;
	return map_set(&p->mappings_by_id, id, (uint32_t)p->mappings.nr++);
}

static int function_add(struct pprof *p, struct wire_span span)
{
	uint64_t id = 0, name = 0, system_name = 0, file = 0, start_line = 0;
	struct pprof_function function;
	struct wire_field field;
	int got, err;

	while ((got = wire_next(&span, &field)) > 0) {
		switch (field.number) {
		case FUNCTION_ID:
			id = field.value;
			break;
		case FUNCTION_NAME:
			name = field.value;
			break;
		case FUNCTION_SYSTEM_NAME:
			system_name = field.value;
			break;
		case FUNCTION_FILENAME:
			file = field.value;
			break;
		case FUNCTION_START_LINE:
			start_line = field.value;
			break;
		default:
			break;
		}
	}
	if (got)
		return got;
	err = pprof_text(p, name, &function.name);
	if (!err)
		err = pprof_text(p, system_name, &function.system_name);
	if (!err)
		err = pprof_text(p, file, &function.file);
	if (!err && p->functions.nr >= PPROF_MAX_ENTRIES)
		err = pprof_too_many(p, "functions", PPROF_MAX_ENTRIES);
	if (!err)
		err = vec_reserve(&p->read->builder.budget, &p->functions, 1, sizeof(function));
	if (err)
		return err;
	function.start_line = start_line <= UINT32_MAX ? (uint32_t)start_line : 0;
	if (!function.name)
		function.name = function.system_name;
	PPROF_AT(p->functions, struct pprof_function, p->functions.nr) = function;
	return map_set(&p->functions_by_id, id, (uint32_t)p->functions.nr++);
}

int pprof_take_referred(struct pprof *p, const struct wire_field *field)
{
	if (field->number == PROFILE_MAPPING)
		return mapping_add(p, field->bytes);
	if (field->number == PROFILE_FUNCTION)
		return function_add(p, field->bytes);
	return 0;
}

/* Names a frame without a function as bpfprof does: by the file and the place in it. */
static void name_place(struct pprof *p, struct profile_location *location)
{
	struct strtab *strings = p->read->builder.strings;
	const struct profile_mapping *mapping = p->read->builder.mappings.items.data;
	const char *file = "", *slash;
	uint64_t rva = location->address;
	char name[300];

	if (location->mapping) {
		mapping += location->mapping - 1;
		file = strtab_get(strings, mapping->path);
		if (rva >= mapping->start && (rva < mapping->limit || !mapping->limit))
			rva = rva - mapping->start + mapping->off;
	}
	slash = strrchr(file, '/');
	file = slash && slash[1] ? slash + 1 : file;
	snprintf(name, sizeof(name), "%.255s+0x%" PRIx64, *file ? file : "unknown", rva);
	location->name = location->system_name = strtab_add(strings, name);
}

static int location_put(struct pprof *p, struct profile_location *location)
{
	uint32_t index;
	int err;

	if (!location->name)
		name_place(p, location);
	profile_read_kind(p->read, location);
	if (!location->system_name)
		location->system_name = location->name;
	if (p->is_calls && location->kind == LOCATION_NATIVE && !location->mapping &&
	    !location->address)
		location->kind = LOCATION_CALL;
	err = profile_builder_location(&p->read->builder, location, &index);
	if (!err)
		err = vec_reserve(&p->read->builder.budget, &p->locations, 1, sizeof(uint32_t));
	if (!err)
		PPROF_AT(p->locations, uint32_t, p->locations.nr++) = index;
	return err;
}

/* Adds a line of a frame; lines of inlined functions come before it. */
static int line_add(struct pprof *p, const struct profile_location *frame, struct wire_span span)
{
	const struct pprof_function *function;
	struct profile_location location;
	struct wire_field field;
	uint64_t id = 0, line = 0;
	uint32_t index;
	int got;

	while ((got = wire_next(&span, &field)) > 0) {
		if (field.number == LINE_FUNCTION_ID)
			id = field.value;
		else if (field.number == LINE_LINE)
			line = field.value;
	}
	if (got)
		return got;
	memcpy(&location, frame, sizeof(location)); /* padding, too */
	location.line = line <= UINT32_MAX ? (uint32_t)line : 0;
	if (id) {
		if (!map_find(&p->functions_by_id, id, &index))
			return pprof_malformed(p, "a function that is not there");
		function = &PPROF_AT(p->functions, struct pprof_function, index);
		location.name = function->name;
		location.system_name = function->system_name;
		location.file = function->file;
		location.start_line = function->start_line;
	}
	return location_put(p, &location);
}

static int mapping_find(struct pprof *p, uint64_t id, uint32_t *ret)
{
	uint32_t index;

	if (!id)
		return 0;
	if (!map_find(&p->mappings_by_id, id, &index))
		return pprof_malformed(p, "a mapping that is not there");
	*ret = PPROF_AT(p->mappings, uint32_t, index);
	return 0;
}

int pprof_take_frame(struct pprof *p, const struct wire_field *of)
{
	struct wire_span span = of->bytes, again = of->bytes;
	struct profile_location frame;
	struct wire_field field;
	struct pprof_range range = { .first = (uint32_t)p->locations.nr };
	uint64_t id = 0, mapping = 0;
	int got, err;

	if (of->number != PROFILE_LOCATION)
		return 0;
	memset(&frame, 0, sizeof(frame));
	while ((got = wire_next(&span, &field)) > 0) {
		if (field.number == LOCATION_ID)
			id = field.value;
		else if (field.number == LOCATION_MAPPING_ID)
			mapping = field.value;
		else if (field.number == LOCATION_ADDRESS)
			frame.address = field.value;
	}
	err = got ? got : mapping_find(p, mapping, &frame.mapping);
	if (!err && (p->frames.nr >= PPROF_MAX_ENTRIES || p->locations.nr >= PPROF_MAX_ENTRIES))
		err = pprof_too_many(p, "frames", PPROF_MAX_ENTRIES);
	while (!err && wire_next(&again, &field) > 0)
		if (field.number == LOCATION_LINE)
			err = line_add(p, &frame, field.bytes);
	if (!err && p->locations.nr == range.first)
		err = location_put(p, &frame);
	if (!err)
		err = vec_reserve(&p->read->builder.budget, &p->frames, 1, sizeof(range));
	if (err)
		return err;
	range.nr = (uint32_t)p->locations.nr - range.first;
	PPROF_AT(p->frames, struct pprof_range, p->frames.nr) = range;
	return map_set(&p->frames_by_id, id, (uint32_t)p->frames.nr++);
}
