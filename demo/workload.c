// SPDX-License-Identifier: Apache-2.0
/*
 * The C half of the demo: a small simulation, step by step, for as many seconds as asked. Built with
 * -O2 and without frame pointers, like most programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BODIES 400
#define CELLS 64
#define KEPT_STEPS 4096

struct body {
	double x, y, vx, vy;
};

struct world {
	struct body bodies[BODIES];
	double heat[CELLS][CELLS];
	double energies[KEPT_STEPS];
	size_t nr_energies;
};

__attribute__((noinline)) static void forces_add(struct world *world)
{
	int i, j;

	for (i = 0; i < BODIES; i++) {
		struct body *one = &world->bodies[i];

		for (j = 0; j < BODIES; j++) {
			double dx = world->bodies[j].x - one->x;
			double dy = world->bodies[j].y - one->y;
			double pull = 1e-6 / (dx * dx + dy * dy + 0.01);

			one->vx += dx * pull;
			one->vy += dy * pull;
		}
	}
}

__attribute__((noinline)) static double bodies_move(struct world *world)
{
	double energy = 0;
	int i;

	for (i = 0; i < BODIES; i++) {
		struct body *one = &world->bodies[i];

		one->x += one->vx;
		one->y += one->vy;
		energy += one->vx * one->vx + one->vy * one->vy;
	}
	return energy;
}

__attribute__((noinline)) static void heat_spread(struct world *world)
{
	int round, x, y;

	for (round = 0; round < 20; round++)
		for (y = 1; y < CELLS - 1; y++)
			for (x = 1; x < CELLS - 1; x++)
				world->heat[y][x] =
					(world->heat[y][x - 1] + world->heat[y][x + 1] +
					 world->heat[y - 1][x] + world->heat[y + 1][x]) /
					4;
}

static int energy_compare(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

__attribute__((noinline)) static double energies_median(struct world *world)
{
	qsort(world->energies, world->nr_energies, sizeof(double), energy_compare);
	return world->energies[world->nr_energies / 2];
}

__attribute__((noinline)) static void world_step(struct world *world)
{
	double energy;

	forces_add(world);
	energy = bodies_move(world);
	world->energies[world->nr_energies++ % KEPT_STEPS] = energy;
	if (world->nr_energies >= KEPT_STEPS)
		world->nr_energies = 1;
	heat_spread(world);
	if (world->nr_energies % 8 == 0)
		world->heat[0][CELLS / 2] = energies_median(world);
}

__attribute__((noinline)) static void simulation_run(struct world *world, time_t end)
{
	while (time(NULL) < end)
		world_step(world);
}

int main(int argc, char **argv)
{
	time_t seconds = argc > 1 ? (time_t)strtoul(argv[1], NULL, 10) : 30;
	struct world *world = calloc(1, sizeof(*world));
	int i;

	if (!world)
		return 1;
	for (i = 0; i < BODIES; i++) {
		world->bodies[i].x = i % 20;
		world->bodies[i].y = i / 20;
	}
	simulation_run(world, time(NULL) + seconds);
	printf("median energy %g\n", energies_median(world));
	free(world);
	return 0;
}
