/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_HTML_TIMELINE_H
#define BPFPROF_FORMATS_HTML_TIMELINE_H

/* The part of a flame graph in HTML for a profile with a history: a chart in which a moment is chosen. */

#include <stdio.h>

struct profile;
struct stack_order;

/*
 * Copies a profile with a history, with a sample more for each series, which counts nothing: stacks that the
 * profile itself has no sample of get a place in the flame graph, too. Its samples are the caller's to free, all
 * else is borrowed. 0 or -ENOMEM.
 */
int html_timeline_profile(const struct profile *profile, struct profile *ret);
/* The elements of the page, above the flame graph. */
void html_timeline_body(FILE *out);
/*
 * A member "timeline" of the data: moments, bands, and of each run of the order (stack_order.h) that has a
 * series [run, band, moment, KiB, moment, KiB...]: a value holds until the next one. nr_samples: those of the
 * profile without its series.
 */
void html_timeline_data(FILE *out, const struct stack_order *order, size_t nr_samples);

#endif
