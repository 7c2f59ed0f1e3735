// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "ray/ray_role.h"

struct role_case {
	char argv[160]; /* `|` between the arguments */
	enum ray_role role;
	char script[32]; /* "": none */
};

ParameterizedTestParameters(ray_role, arguments)
{
	static struct role_case cases[] = {
		{ "ray::Trainer.fit", RAY_ROLE_WORKER, "" },
		{ "ray::IDLE", RAY_ROLE_WORKER, "" },
		{ "ray::DashboardAgent", RAY_ROLE_AGENT, "" },
		{ "ray::RuntimeEnvAgent", RAY_ROLE_AGENT, "" },
		{ "/v/ray/core/src/ray/raylet/raylet|--x=1", RAY_ROLE_RAYLET, "" },
		{ "/v/ray/core/src/ray/gcs/gcs_server|--x", RAY_ROLE_GCS, "" },
		{ "/v/bin/python|/v/ray/dashboard/dashboard.py|--port=1", RAY_ROLE_DASHBOARD,
		  "dashboard.py" },
		{ "python|-u|/v/ray/dashboard/agent.py", RAY_ROLE_AGENT, "agent.py" },
		{ "python|-u|/v/ray/_private/runtime_env/agent/main.py", RAY_ROLE_AGENT,
		  "main.py" },
		{ "python|/v/ray/_private/workers/default_worker.py|--a", RAY_ROLE_WORKER,
		  "default_worker.py" },
		{ "python|/home/me/dashboard/agent.py", RAY_ROLE_NONE, "agent.py" },
		{ "python|-W|ignore|-u|train.py|--lr|1", RAY_ROLE_NONE, "train.py" },
		{ "python|-Xdev|jobs/train.py", RAY_ROLE_NONE, "train.py" },
		{ "python|-m|my.train|x", RAY_ROLE_NONE, "my.train" },
		{ "python|-c|import ray", RAY_ROLE_NONE, "-c" },
		{ "python|-uc|import ray", RAY_ROLE_NONE, "-c" },
		{ "python|with blank.py", RAY_ROLE_NONE, "with blank.py" },
		{ "python|a\033[m.py", RAY_ROLE_NONE, "a?[m.py" },
		{ "python|folder/", RAY_ROLE_NONE, "folder/" },
		{ "python", RAY_ROLE_NONE, "" },
		{ "python|-W", RAY_ROLE_NONE, "" },
		{ "", RAY_ROLE_NONE, "" },
	};

	return cr_make_param_array(struct role_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct role_case *c, ray_role, arguments)
{
	size_t len = strlen(c->argv);
	char argv[160], script[32] = "";

	for (size_t i = 0; i < sizeof(argv); i++)
		argv[i] = (char)(c->argv[i] == '|' ? 0 : c->argv[i]);
	cr_expect_eq(ray_role_of_argv(argv, len), c->role, "%s", c->argv);
	cr_expect_eq(ray_role_script(script, sizeof(script), argv, len), c->script[0] ? 0 : -ENOENT,
		     "%s", c->argv);
	cr_expect_str_eq(script, c->script, "%s: %s", c->argv, script);
}

Test(ray_role, long_script)
{
	char script[8];

	cr_assert_eq(ray_role_script(script, sizeof(script), "python\0long_name.py", 19), 0);
	cr_expect_str_eq(script, "long_na");
}

static void *thread_named(void *arg)
{
	pthread_setname_np(pthread_self(), "worker.io");
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

Test(ray_role, joined)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	cr_expect_not(ray_role_has_joined(getpid()));
	pthread_barrier_init(&barrier, NULL, 2);
	cr_assert_eq(pthread_create(&thread, NULL, thread_named, &barrier), 0);
	pthread_barrier_wait(&barrier);
	cr_expect(ray_role_has_joined(getpid()));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	cr_expect_not(ray_role_has_joined(0));
}
