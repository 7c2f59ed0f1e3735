/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_SERVICE_H
#define BPFPROF_DAEMON_SERVICE_H

/*
 * Tells the service manager that started us (sd_notify(3), the protocol over $NOTIFY_SOCKET).
 * Nothing happens if there is none, or if it does not listen.
 */
void service_notify(const char *state);

#endif
