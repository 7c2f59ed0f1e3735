// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the interactive flame graph: one HTML file with everything in it, drawn by flame.js. The
 * stacks are embedded as a prefix-coded string. Each run of equal stacks has the number of frames
 * shared with the run before, the number of new frames, their text numbers and the count (with two
 * profiles: two counts), each as base-64 digits of 5 bits, lowest first, with 32 added while more
 * follow. flame_tree.js has the decoder.
 */
#include "formats/output.h"

#include "base/buf.h"
#include "base/capped.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/asset.h"
#include "formats/html_timeline.h"
#include "formats/profile_text.h"
#include "formats/stack_order.h"
#include "profile/profile.h"
#include "profile/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (1U << 20)

ASSET(flame_css, "user/formats/flame.css");
ASSET(flame_tree_js, "user/formats/flame_tree.js");
ASSET(flame_js, "user/formats/flame.js");
ASSET(timeline_js, "user/formats/timeline.js");

static void write_asset(FILE *out, const char *start, const char *end)
{
	fwrite(start, 1, (size_t)(end - start), out);
}

static void write_number(FILE *out, uint64_t value)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	while (value >= 32) {
		putc(digits[(value & 31) | 32], out);
		value >>= 5;
	}
	putc(digits[value], out);
}

/* diff: each run has two numbers, after and before, instead of one. */
static void write_stacks(FILE *out, const struct stack_order *order, const struct output_diff *diff)
{
	uint64_t nr_nodes = 0, total_ns = 0;
	const struct stack_path *path;
	struct stack_run run;
	uint32_t i;
	size_t pos = 0;

	fputs(",\n\"stacks\":\"", out);
	while (stack_order_next(order, &pos, &run)) {
		path = stack_path_get(order, run.sample);
		write_number(out, run.shared);
		write_number(out, path->nr - run.shared);
		for (i = run.shared; i < path->nr; i++)
			write_number(out, path->texts[i] - 1);
		write_number(out, diff ? run.count - run.value_ns : run.count);
		if (diff)
			write_number(out, run.value_ns);
		nr_nodes += path->nr - run.shared;
		total_ns = capped_add(total_ns, run.value_ns);
	}
	fprintf(out, "\",\n\"nodes\":%" PRIu64 ",\"ns\":%" PRIu64, nr_nodes, total_ns);
}

static void write_names(FILE *out, const struct stack_order *order)
{
	uint32_t i;

	fputs("{\"names\":[", out);
	for (i = 1; i <= order->nr_names; i++) {
		if (i > 1)
			fputs(",\n", out);
		text_json(out, order->names[i]);
	}
	fputs("],\n\"kinds\":\"", out);
	for (i = 1; i <= order->nr_names; i++)
		putc('0' + order->kinds[i], out);
	putc('"', out);
}

/* printf alone is not enough: a locale's decimal comma is no JSON. */
static void write_real(FILE *out, const char *key, double value)
{
	char text[32], *comma;

	snprintf(text, sizeof(text), "%.9g", value);
	comma = strchr(text, ',');
	if (comma)
		*comma = '.';
	fprintf(out, "\"%s\":%s", key, text);
}

static void write_diff(FILE *out, const struct output_diff *diff)
{
	fprintf(out, ",\n\"diff\":{\"unit\":\"%s\",", diff->unit);
	write_real(out, "before", diff->scale[0]);
	putc(',', out);
	write_real(out, "after", diff->scale[1]);
	putc(',', out);
	write_real(out, "sample_before", diff->sample[0]);
	putc(',', out);
	write_real(out, "sample_after", diff->sample[1]);
	putc('}', out);
}

/* nr_samples: those of the profile that have no series. */
static void write_data(FILE *out, const struct profile *profile, const struct stack_order *order,
		       const struct output_diff *diff, size_t nr_samples)
{
	struct buf json;

	fputs("<script type=\"application/json\" id=\"data\">\n", out);
	write_names(out, order);
	write_stacks(out, order, diff);
	if (diff)
		write_diff(out, diff);
	else if (flame_unit(profile))
		fprintf(out, ",\n\"unit\":\"%s\"", flame_unit(profile));
	fprintf(out, ",\"seconds\":%" PRIu64 ".%" PRIu64, profile->duration_ns / 1000000000,
		profile->duration_ns / 100000000 % 10);
	if (profile->history)
		html_timeline_data(out, order, nr_samples);
	buf_init(&json, MAX_TEXT_BYTES);
	if (profile->stats)
		stats_json(&json, profile->stats);
	if (json.len && !buf_error(&json))
		fprintf(out, ",\n\"stats\":%s", json.data);
	buf_fini(&json);
	fputs("}\n</script>\n", out);
}

static void write_footer(FILE *out, const struct run_stats *stats)
{
	char *line, *end;
	struct buf text;

	if (!stats)
		return;
	buf_init(&text, MAX_TEXT_BYTES);
	stats_text(&text, stats, true);
	fputs("<footer>\n", out);
	for (line = text.data; line && (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		fputs("<span>", out);
		text_xml(out, line);
		fputs("</span>\n", out);
	}
	buf_fini(&text);
	fputs("</footer>\n", out);
}

static void write_body(FILE *out, const char *title, const char *caption, bool timeline)
{
	fputs("<header>\n<div id=\"heading\"><h1>", out);
	text_xml(out, title);
	fputs("</h1><p>", out);
	text_xml(out, caption);
	fputs("</p></div>\n"
	      "<div id=\"tools\">\n"
	      "<input id=\"search\" type=\"search\" placeholder=\"Search: word or regular "
	      "expression  ( / )\" aria-label=\"Search frames\" spellcheck=\"false\">\n"
	      "<output id=\"matched\"></output>\n"
	      "<button id=\"reset\" title=\"Escape\" disabled>Reset zoom</button>\n"
	      "<button id=\"turn\" title=\"Root at the top or at the bottom (i)\">Flame</button>\n"
	      "<button id=\"list\" title=\"Functions by own time (t)\">Functions</button>\n"
	      "<ul id=\"legend\"></ul>\n"
	      "</div>\n",
	      out);
	if (timeline)
		html_timeline_body(out);
	fputs("<nav id=\"crumbs\" aria-label=\"Zoomed to\"></nav>\n</header>\n"
	      "<main id=\"view\" tabindex=\"0\" aria-label=\"Flame graph: arrow keys move, Enter "
	      "zooms, Escape goes back\"><canvas id=\"canvas\"></canvas><div id=\"spacer\"></div>"
	      "<p id=\"empty\" hidden></p></main>\n"
	      "<section id=\"table\" hidden></section>\n"
	      "<div id=\"detail\" role=\"status\">&#160;</div>\n"
	      "<div id=\"tip\" hidden></div>\n"
	      "<noscript><p>This flame graph is drawn by the script inside this file, and scripts "
	      "are off.</p></noscript>\n",
	      out);
}

static void write_page(FILE *out, const struct stack_order *order, const char *title,
		       const char *caption, const struct output_diff *diff, size_t nr_samples)
{
	const struct profile *profile = order->profile;

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"generator\" content=\"bpfprof\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>",
	      out);
	text_xml(out, title);
	fputs(" \xc2\xb7 ", out);
	text_xml(out, caption);
	fputs("</title>\n<style>\n", out);
	write_asset(out, flame_css, flame_css_end);
	fputs("</style>\n</head>\n<body>\n", out);
	write_body(out, title, caption, profile->history);
	write_footer(out, profile->stats);
	write_data(out, profile, order, diff, nr_samples);
	fputs("<script>\n", out);
	write_asset(out, flame_tree_js, flame_tree_js_end);
	write_asset(out, flame_js, flame_js_end);
	if (profile->history) {
		fputs("</script>\n<script>\n", out);
		write_asset(out, timeline_js, timeline_js_end);
	}
	fputs("</script>\n</body>\n</html>\n", out);
}

int html_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	const struct stack_rules rules = {
		.location = frame_text,
		.process = process_text,
		.container = containers_differ(profile) ? container_text : NULL,
		.threads = options->threads,
		.zeros = profile->history,
	};
	struct profile with_series = *profile;
	struct stack_order order;
	struct buf caption;
	int err;

	buf_init(&caption, MAX_TEXT_BYTES);
	profile_caption(&caption, profile);
	err = buf_error(&caption);
	if (!err && profile->history)
		err = html_timeline_profile(profile, &with_series);
	if (!err)
		err = stack_order_init(&order, &with_series, &rules);
	if (!err) {
		write_page(out, &order, options->title ? options->title : flame_title(profile),
			   options->caption ? options->caption : caption.data, options->diff,
			   profile->nr_samples);
		stack_order_fini(&order);
	}
	if (with_series.samples != profile->samples)
		free(with_series.samples);
	buf_fini(&caption);
	return err;
}
