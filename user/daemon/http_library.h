/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_LIBRARY_H
#define BPFPROF_DAEMON_HTTP_LIBRARY_H

#define HTTP_LIBRARY "libmicrohttpd.so.12"

/*
 * Loads libmicrohttpd. The functions of microhttpd.h are defined in http_library.c: they call those of the
 * library, and may be called once it is loaded. 0 or -ELIBACC.
 */
int http_library_load(void);

#endif
