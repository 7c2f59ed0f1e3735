// SPDX-License-Identifier: Apache-2.0
#include "cmd/memory_screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "cmd/watched.h"
#include "memory/live_page.h"
#include "memory/monitor.h"
#include "options/memory_options.h"
#include "tui/page.h"
#include "tui/screen.h"
#include "tui/width.h"

#define DRAW_NS NS_PER_SECOND

bool memory_screen_is_wanted(const struct memory_options *options)
{
	const struct record_options *record = &options->record;

	return !options->allocations && !record->nr_outputs && !record->stats_path &&
	       !record->duration_ns && !record->command && isatty(STDIN_FILENO) &&
	       isatty(STDOUT_FILENO);
}

int memory_screen_open(struct memory_screen *screen, struct memory_monitor *monitor,
		       const struct capture_options *capture)
{
	int err;

	width_init();
	err = live_holders_init(&screen->live, monitor);
	if (err)
		return err;
	watched_text(screen->what, sizeof(screen->what), capture, monitor->sampler->reader.runner,
		     0);
	err = screen_open();
	if (err)
		log_warn("there is no live screen: %s",
			 err == -ENOENT ? "this terminal (TERM) is not known" : strerror(-err));
	screen->open = !err;
	return err == -ENOMEM ? err : 0;
}

void memory_screen_close(struct memory_screen *screen)
{
	if (screen->open)
		screen_close();
	screen->open = false;
	live_holders_fini(&screen->live);
}

static int draw(const struct memory_screen *screen)
{
	size_t columns, rows;
	struct page page;
	int err;

	screen_size(&columns, &rows);
	err = live_page(&screen->live, screen->what, screen->by_change, columns, rows, &page);
	if (err)
		return err;
	screen_draw(&page);
	page_fini(&page);
	return 0;
}

int memory_screen_run(struct memory_screen *screen, uint64_t now_ns)
{
	int err;

	if (!screen->open || now_ns < screen->next_ns)
		return 0;
	screen->next_ns = now_ns + DRAW_NS;
	err = live_holders_update(&screen->live, now_ns);
	return err ?: draw(screen);
}

void memory_screen_resize(struct memory_screen *screen)
{
	if (!screen->open)
		return;
	screen_resize();
	draw(screen);
}

bool memory_screen_keys(struct memory_screen *screen)
{
	bool by_change = screen->by_change;
	uint32_t key;

	while (screen->open && (key = screen_key())) {
		if (key == 'q' || key == 'Q')
			return true;
		if (key == 'g' || key == 'G' || key == 'h' || key == 'H')
			by_change = key == 'g' || key == 'G';
	}
	if (by_change != screen->by_change) {
		screen->by_change = by_change;
		draw(screen);
	}
	return false;
}
