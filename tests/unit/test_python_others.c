// SPDX-License-Identifier: Apache-2.0
#include "python/others.h"

#include <criterion/criterion.h>
#include <stddef.h>

Test(python_others, files)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
		{ "/usr/bin/pypy3.9", "PyPy" },
		{ "/opt/pypy/bin/pypy", "PyPy" },
		{ "/usr/bin/pypy3-c", "PyPy" },
		{ "/usr/lib/x86_64-linux-gnu/libpypy3.9-c.so", "PyPy" },
		{ "/opt/graalpy/bin/graalpy", "GraalPy" },
		{ "graalpy3.11", "GraalPy" },
		{ "/opt/graalpy/lib/libpythonvm.so", "GraalPy" },
		{ "/usr/local/bin/micropython", "MicroPython" },
		{ "/usr/bin/pypyrus", NULL },
		{ "/opt/pypy/bin/python3.11", NULL },
		{ "/usr/lib/libpython3.11.so.1.0", NULL },
		{ "/usr/bin/micropythonic", NULL },
		{ "/usr/bin/", NULL },
		{ "", NULL },
	};
	const char *name;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		name = python_other_of_file(cases[i].path);
		if (cases[i].name)
			cr_expect_str_eq(name ? name : "", cases[i].name, "%s", cases[i].path);
		else
			cr_expect_null(name, "%s", cases[i].path);
	}
}

Test(python_others, java)
{
	cr_expect_str_eq(python_other_of_java("java -jar /x/jython-standalone-2.7.3.jar a.py"),
			 "Jython");
	cr_expect_str_eq(python_other_of_java("java -cp x org.python.util.jython a.py"), "Jython");
	cr_expect_null(python_other_of_java("java -jar x.jar python"));
	cr_expect_null(python_other_of_java(""));
}
