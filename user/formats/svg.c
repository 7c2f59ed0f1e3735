// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the flame graph as an image: plain rectangles for every viewer of SVG, and a small script
 * with which a browser can search and zoom. Frames narrower than MIN_PERMILLE of the whole are left
 * out, so that the file stays small.
 */
#include "formats/output.h"

#include "base/buf.h"
#include "base/capped.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "formats/asset.h"
#include "formats/profile_text.h"
#include "formats/py_spy.h"
#include "formats/stack_order.h"
#include "profile/profile.h"
#include "profile/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (1U << 20)
#define WIDTH 1200
#define MARGIN 10
#define TOP 62
#define LEGEND_X 645
#define ROW 17
#define LINE 15
#define LINE_CHARS 180 /* of the lines below the graph */
#define MIN_PERMILLE 1
/* Widest letter of the monospaced fonts named in the style, in hundredths. */
#define CHAR_WIDTH 680

ASSET(svg_css, "user/formats/svg.css");
ASSET(svg_js, "user/formats/svg.js");

/* A frame of the walk that has not ended yet. */
struct open_frame {
	uint32_t text; /* 0 = the root */
	uint64_t start, own;
	double old_start; /* diff: the weight of the first profile at this position */
};

struct svg {
	FILE *out;
	const struct stack_order *order;
	const struct output_options *options;
	const struct output_diff *diff; /* or NULL */
	uint64_t total; /* of all counts, or of all widths of a diff */
	double old; /* diff: weight of the first profile, up to here */
	uint64_t ns_per_sample;
	uint32_t max_depth; /* deepest frame that is wide enough */
	bool writing; /* the first walk only finds max_depth */
	struct open_frame *open;
	size_t nr_open, cap;
};

/* Writes hundredths without printf's %f, which may use a locale's decimal comma. */
static void write_hundredths(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, " %s=\"%" PRIu64 ".%02" PRIu64 "\"", name, value / 100, value % 100);
}

static uint64_t position(const struct svg *svg, uint64_t samples)
{
	const double scale = (WIDTH - 2 * MARGIN) * 100.0 / (double)svg->total;

	return (uint64_t)((double)samples * scale + 0.5);
}

static bool is_of_calls(const struct svg *svg)
{
	return svg->order->profile->call_values;
}

/*
 * Samples arrive independently: the variance of their number is that number. If there is no sample,
 * one of average weight stands in.
 */
double output_diff_error(const struct output_diff *diff, double before, double after)
{
	const double values[2] = { before, after };
	double variance = 0;
	size_t i;

	for (i = 0; i < 2; i++)
		variance += diff->sample[i] *
			    (values[i] > diff->sample[i] ? values[i] : diff->sample[i]);
	return sqrt(variance);
}

bool output_diff_is_exact(const struct output_diff *diff)
{
	return diff->sample[0] == 0 && diff->sample[1] == 0;
}

/* Widths are integers; in a diff one unit has this many. */
#define WIDTHS_PER_UNIT 1e9

static uint64_t run_width(const struct svg *svg, const struct stack_run *run)
{
	const struct output_diff *diff = svg->diff;

	if (!diff)
		return run->count;
	return (uint64_t)(((double)(run->count - run->value_ns) * diff->scale[1] +
			   (double)run->value_ns * diff->scale[0]) *
				  WIDTHS_PER_UNIT +
			  0.5);
}

static void write_change(const struct svg *svg, const char *name, double before, double after)
{
	double error = output_diff_error(svg->diff, before, after), change = after - before;

	if (fabs(change) < 1e-9) /* no -0 */
		change = 0;
	fputs("<title>", svg->out);
	text_xml(svg->out, name);
	fprintf(svg->out, "\n%.4f to %.4f %s: %+.4f", before, after, svg->diff->unit, change);
	if (!output_diff_is_exact(svg->diff))
		fprintf(svg->out, ", %.1f times the sampling error", fabs(change) / error);
	fputs("</title>", svg->out);
}

/*
 * Red frames grew, blue ones shrank; a pale change may come from sampling alone. flame.js does the
 * same.
 */
static void write_diff_colour(const struct svg *svg, double before, double after)
{
	double change = after - before, most = after > before ? after : before, part;

	part = most > 0 ? fabs(change) / most : 0;
	if (fabs(change) <= 2 * output_diff_error(svg->diff, before, after))
		fputs(" style=\"fill:hsl(40,12%,88%);fill-opacity:1\"", svg->out);
	else
		fprintf(svg->out, " style=\"fill:hsl(%d,%d%%,%d%%);fill-opacity:1\"",
			change > 0 ? 4 : 214, (int)(60 + 25 * part), (int)(84 - 26 * part));
}

static void write_title(const struct svg *svg, const char *name, uint64_t total, uint64_t own)
{
	const double percent = 100.0 / (double)svg->total;
	const uint64_t basis = (uint64_t)((double)total * percent * 100 + 0.5);
	const uint64_t ms = total * svg->ns_per_sample / 1000000;

	fputs("<title>", svg->out);
	text_xml(svg->out, name);
	fprintf(svg->out, "\n%" PRIu64, total);
	if (flame_unit(svg->order->profile)) /* the durations of the calls differ */
		fprintf(svg->out, " %ss", flame_unit(svg->order->profile));
	else
		fprintf(svg->out, " samples, %" PRIu64 ".%03" PRIu64 " s", ms / 1000, ms % 1000);
	fprintf(svg->out, ", %" PRIu64 ".%02" PRIu64 "%%; own %" PRIu64 "</title>", basis / 100,
		basis % 100, own);
}

/* Writes as much of the name as fits; nothing if that is less than three letters. */
static void write_label(const struct svg *svg, const char *name, uint64_t width)
{
	size_t room = width > 600 ? (size_t)((width - 600) / CHAR_WIDTH) : 0, columns = 0;
	const char *c, *cut = name;
	struct buf label;

	for (c = name; *c; c++) {
		if (utf8_continues(*c))
			continue;
		columns++;
		if (columns == room)
			cut = c;
	}
	if (room < 3)
		return;
	buf_init(&label, MAX_TEXT_BYTES);
	buf_add(&label, name, columns <= room ? strlen(name) : (size_t)(cut - name));
	if (columns > room)
		buf_add_str(&label, "\xe2\x80\xa6");
	if (!buf_error(&label))
		text_xml(svg->out, label.data);
	buf_fini(&label);
}

static void write_frame(const struct svg *svg, const struct open_frame *frame, uint32_t depth,
			uint64_t total)
{
	static const char *const classes[] = { "p", "k", "n", "y", "m", "g", "p" };
	const char *name = frame->text ? svg->order->names[frame->text] : "all";
	const double before = svg->old - frame->old_start;
	const double after = (double)total / WIDTHS_PER_UNIT - before;
	const uint64_t x = position(svg, frame->start);
	const uint64_t width = position(svg, frame->start + total) - x;
	const unsigned int y = TOP + depth * ROW;

	fprintf(svg->out, "<g class=\"%s\">",
		frame->text ? classes[svg->order->kinds[frame->text]] : "a");
	if (svg->diff)
		write_change(svg, name, before, after);
	else
		write_title(svg, name, total, frame->own);
	fputs("<rect", svg->out);
	if (svg->diff)
		write_diff_colour(svg, before, after);
	write_hundredths(svg->out, "x", x + 100 * MARGIN);
	write_hundredths(svg->out, "width", width);
	fprintf(svg->out, " y=\"%u\" height=\"%u\"/><text", y, ROW - 1);
	write_hundredths(svg->out, "x", x + 100 * MARGIN + 300);
	fprintf(svg->out, " y=\"%u\">", y + 12);
	write_label(svg, name, width);
	fputs("</text></g>\n", svg->out);
}

static void close_frames(struct svg *svg, size_t keep, uint64_t at)
{
	const struct open_frame *frame;
	uint64_t total;

	while (svg->nr_open > keep) {
		frame = &svg->open[--svg->nr_open];
		total = at - frame->start;
		if ((double)total * 1000 < (double)svg->total * MIN_PERMILLE)
			continue;
		if (svg->nr_open > svg->max_depth)
			svg->max_depth = (uint32_t)svg->nr_open;
		if (svg->writing)
			write_frame(svg, frame, (uint32_t)svg->nr_open, total);
	}
}

static int open_frame(struct svg *svg, uint32_t text, uint64_t at)
{
	if (vec_grow(svg->open, svg->nr_open + 1, svg->cap, VEC_BOUNDED))
		return -ENOMEM;
	svg->open[svg->nr_open++] =
		(struct open_frame){ .text = text, .start = at, .old_start = svg->old };
	return 0;
}

static int walk(struct svg *svg, bool writing)
{
	const struct stack_path *path;
	struct stack_run run;
	uint64_t at = 0;
	uint32_t i;
	size_t pos = 0;

	svg->writing = writing;
	svg->old = 0;
	if (open_frame(svg, 0, 0))
		return -ENOMEM;
	while (stack_order_next(svg->order, &pos, &run)) {
		close_frames(svg, run.shared + 1, at);
		path = stack_path_get(svg->order, run.sample);
		for (i = run.shared; i < path->nr; i++)
			if (open_frame(svg, path->texts[i], at))
				return -ENOMEM;
		svg->open[svg->nr_open - 1].own =
			capped_add(svg->open[svg->nr_open - 1].own, run_width(svg, &run));
		at = capped_add(at, run_width(svg, &run));
		if (svg->diff)
			svg->old += (double)run.value_ns * svg->diff->scale[0];
	}
	close_frames(svg, 0, at);
	return 0;
}

static void write_text(FILE *out, const char *class, unsigned int x, unsigned int y,
		       const char *text)
{
	fprintf(out, "<text class=\"%s\" x=\"%u\" y=\"%u\">", class, x, y);
	text_xml(out, text);
	fputs("</text>\n", out);
}

static void write_head(const struct svg *svg, const char *title, const char *caption,
		       unsigned int height)
{
	fprintf(svg->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		"viewBox=\"0 0 %u %u\">\n<style>\n",
		WIDTH, height, WIDTH, height);
	fwrite(svg_css, 1, (size_t)(svg_css_end - svg_css), svg->out);
	fputs("</style>\n<rect id=\"back\" width=\"100%\" height=\"100%\"/>\n", svg->out);
	write_text(svg->out, "title", MARGIN, 24, title);
	write_text(svg->out, "quiet", MARGIN, 44, caption);
}

/* Writes buttons. Only the script shows them, as they do nothing without it. */
static void write_buttons(FILE *out)
{
	fprintf(out,
		"<text id=\"search\" class=\"button\" x=\"%u\" y=\"24\" text-anchor=\"end\" "
		"visibility=\"hidden\">Search</text>\n"
		"<text id=\"reset\" class=\"button\" x=\"%u\" y=\"24\" text-anchor=\"end\" "
		"visibility=\"hidden\">Reset zoom</text>\n"
		"<text id=\"matched\" x=\"%u\" y=\"44\" text-anchor=\"end\"></text>\n",
		WIDTH - MARGIN, WIDTH - MARGIN - 70, WIDTH - MARGIN);
}

/* Writes the kinds with their colours, right of the title. */
static void write_legend(const struct svg *svg)
{
	static const struct {
		const char *class, *label;
	} kinds[] = { { "g", "GPU call" },
		      { "y", "Python" },
		      { "n", "native" },
		      { "k", "kernel" },
		      { "m", "marker" } };
	const struct output_options *options = svg->options;
	unsigned int i, x, end = sizeof(kinds) / sizeof(kinds[0]);

	if (options->py_spy)
		end = options->native ? 3 : 2;
	for (i = is_of_calls(svg) ? 0 : 1; i < end; i++) {
		x = LEGEND_X + i * 75;
		fprintf(svg->out,
			"<rect class=\"%s\" x=\"%u\" y=\"15\" width=\"10\" height=\"10\"/>"
			"<text class=\"quiet\" x=\"%u\" y=\"24\">%s</text>\n",
			kinds[i].class, x, x + 14, kinds[i].label);
	}
}

static void write_diff_legend(FILE *out)
{
	static const struct {
		const char *colour, *label;
		unsigned int x;
	} kinds[] = { { "hsl(4,85%,58%)", "grew", LEGEND_X },
		      { "hsl(214,85%,58%)", "shrank", LEGEND_X + 75 },
		      { "hsl(40,12%,88%)", "no more than chance", LEGEND_X + 150 } };
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		fprintf(out,
			"<rect style=\"fill:%s\" x=\"%u\" y=\"15\" width=\"10\" height=\"10\"/>"
			"<text class=\"quiet\" x=\"%u\" y=\"24\">%s</text>\n",
			kinds[i].colour, kinds[i].x, kinds[i].x + 14, kinds[i].label);
}

static void write_counters(FILE *out, struct buf *lines, unsigned int y)
{
	char *line, *end;

	for (line = lines->data; line && (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		write_text(out, "quiet", MARGIN, y, line);
		y += LINE;
	}
}

/* Breaks lines that are wider than the image, after a comma. */
static void wrap_lines(struct buf *lines)
{
	char *comma = NULL;
	size_t i, begin = 0;

	for (i = 0; i < lines->len; i++) {
		if (lines->data[i] == '\n') {
			begin = i + 1;
			comma = NULL;
		} else if (i > begin + LINE_CHARS && comma) {
			*comma = '\n';
			begin = (size_t)(comma - lines->data) + 1;
			comma = NULL;
		}
		if (lines->data[i] == ' ' && i > begin && lines->data[i - 1] == ',')
			comma = lines->data + i;
	}
}

static unsigned int count_lines(const struct buf *lines)
{
	unsigned int nr = 0;
	size_t i;

	for (i = 0; i < lines->len; i++)
		nr += lines->data[i] == '\n';
	return nr;
}

static int write_image(struct svg *svg, const char *title, const char *caption, struct buf *lines)
{
	unsigned int bottom;
	int err = 0;

	if (svg->total)
		err = walk(svg, false);
	if (err)
		return err;
	bottom = TOP + (svg->max_depth + 1) * ROW + 18;
	write_head(svg, title, caption, bottom + LINE * count_lines(lines));
	if (svg->total) {
		write_buttons(svg->out);
		if (svg->diff)
			write_diff_legend(svg->out);
		else
			write_legend(svg);
		fprintf(svg->out, "<g id=\"frames\" data-left=\"%u\" data-width=\"%u\">\n", MARGIN,
			WIDTH - 2 * MARGIN);
		err = walk(svg, true);
		fputs("</g>\n", svg->out);
	} else {
		write_text(svg->out, "", MARGIN, TOP + 13,
			   is_of_calls(svg) ? "No call of CUDA or NCCL."
			   : svg->options->py_spy
				   ? "No samples: no Python code ran on a CPU. With idle, threads "
				     "that "
				     "wait are shown, too."
				   : "No samples: nothing that was watched ran on a CPU.");
	}
	write_counters(svg->out, lines, bottom);
	fputs("<script><![CDATA[\n", svg->out);
	fwrite(svg_js, 1, (size_t)(svg_js_end - svg_js), svg->out);
	fputs("]]></script>\n</svg>\n", svg->out);
	return err;
}

static uint64_t total_width(const struct svg *svg)
{
	struct stack_run run;
	uint64_t total = 0;
	size_t pos = 0;

	if (!svg->diff)
		return svg->order->total;
	while (stack_order_next(svg->order, &pos, &run))
		total = capped_add(total, run_width(svg, &run));
	return total;
}

static uint64_t ns_per_sample(const struct profile *profile)
{
	uint64_t count = 0, ns = 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		count = capped_add(count, profile_weight(profile, i));
		ns = capped_add(ns, profile->samples[i].value_ns);
	}
	return count ? ns / count : 0;
}

int svg_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	struct stack_rules rules = {
		.location = frame_text,
		.process = process_text,
		.container = containers_differ(profile) ? container_text : NULL,
		.threads = options->threads,
	};
	struct stack_order order;
	struct svg svg = { .out = out,
			   .order = &order,
			   .options = options,
			   .diff = options->diff,
			   .ns_per_sample = ns_per_sample(profile) };
	struct buf caption, lines;
	int err;

	if (options->py_spy)
		rules = py_spy_rules(options);
	buf_init(&caption, MAX_TEXT_BYTES);
	buf_init(&lines, MAX_TEXT_BYTES);
	profile_caption(&caption, profile);
	if (profile->stats)
		stats_text(&lines, profile->stats, !options->py_spy);
	wrap_lines(&lines);
	err = buf_error(&caption) ? buf_error(&caption) : buf_error(&lines);
	if (!err)
		err = stack_order_init(&order, profile, &rules);
	if (!err) {
		svg.total = total_width(&svg);
		err = write_image(&svg, options->title ? options->title : flame_title(profile),
				  options->caption ? options->caption : caption.data, &lines);
		stack_order_fini(&order);
	}
	free(svg.open);
	buf_fini(&caption);
	buf_fini(&lines);
	return err;
}
