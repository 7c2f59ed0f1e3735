// SPDX-License-Identifier: Apache-2.0
#include "python/others.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "proc/images.h"
#include "proc/processes.h"

const char *python_other_of_file(const char *path)
{
	static const struct {
		const char *prefix, *name;
	} files[] = {
		{ "libpypy", "PyPy" }, /* libpypy3.10-c.so */
		{ "pypy", "PyPy" },
		{ "graalpy", "GraalPy" },
		{ "libpythonvm", "GraalPy" },
		{ "micropython", "MicroPython" },
		{ "circuitpython", "CircuitPython" },
		{ "rustpython", "RustPython" },
	};
	const char *base = text_base_name(path);
	size_t i, len;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		len = strlen(files[i].prefix);
		/* A prefix before a letter is part of another word. */
		if (!strncmp(base, files[i].prefix, len) && !isalpha((unsigned char)base[len]))
			return files[i].name;
	}
	return NULL;
}

const char *python_other_of_java(const char *cmdline)
{
	static const char *const marks[] = { "org.python.util.jython", "jython.jar",
					     "jython-standalone" };
	size_t i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strstr(cmdline, marks[i]))
			return "Jython";
	return NULL;
}

const char *python_other_of(struct images *images, const struct process *process,
			    const char *cmdline)
{
	const struct image *image;
	const char *name = NULL;
	size_t i;

	for (i = 0; i < process->nr_mappings && !name; i++) {
		image = images_get(images, (uint32_t)process->mappings[i].image);
		if (!image || !image->path)
			continue;
		/* Other files of the process may begin with these words. */
		if (image->id == process->program ||
		    !strncmp(text_base_name(image->path), "lib", 3))
			name = python_other_of_file(image->path);
		if (!name && !strcmp(text_base_name(image->path), "libjvm.so"))
			name = python_other_of_java(cmdline);
	}
	return name;
}
